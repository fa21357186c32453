package watch

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/db"
	"sheaf/serve/account"
	"sheaf/serve/records"
)

const (
	// segmentsAtOnce is how many segments are looked at between two writes of the place.
	segmentsAtOnce = 200
	// maxNotices is the most notices that a watch gets of one segment. On a host's first visit
	// every page is new, and nobody reads ten thousand lines.
	maxNotices = 200
)

const placeName = "changes"

// follower makes notices of what is published. Several may follow at once, in many processes: one
// of them makes progress, and the others learn of it.
type follower struct {
	table   *table
	records *records.Records
	account func(ctx context.Context, name string) (*account.Account, error)
	zone    *time.Location
}

// step looks at the next segments. more says that there may be others already.
func (f *follower) step(ctx context.Context) (more bool, err error) {
	since, err := f.place(ctx)
	if err != nil {
		return false, err
	}
	segments, last, err := f.records.Published(ctx, since, segmentsAtOnce)
	if err != nil || last == since {
		return false, err
	}
	got := catch{saved: make(map[string]time.Time)}
	accounts := make(map[string]*account.Account)
	for _, seg := range segments {
		if err := f.collect(ctx, seg, accounts, &got); err != nil {
			return false, fmt.Errorf("host %s in edition %s: %w", seg.Host, seg.Edition, err)
		}
	}
	return last > since, f.advance(ctx, since, last, &got)
}

// catch collects what watches are to get from new segments.
type catch struct {
	notices []*found
	saved   map[string]time.Time // of watches for one visit: its time, by the watch's ID
}

// place returns the number up to which the feed was read. The first time it is the end of the feed,
// since publications before anybody watched are no changes.
func (f *follower) place(ctx context.Context) (since int64, err error) {
	err = f.table.db.QueryRowContext(ctx, `SELECT since FROM watch_place WHERE name = ?`, placeName).Scan(&since)
	if !errors.Is(err, sql.ErrNoRows) {
		return since, err
	}
	if _, since, err = f.records.Published(ctx, -1, 0); err != nil {
		return 0, err
	}
	_, err = f.table.db.ExecContext(ctx, `INSERT INTO watch_place (name, since) VALUES (?, ?) ON CONFLICT DO NOTHING`, placeName, since)
	return since, err
}

// found is a notice with its watch.
type found struct {
	Notice
	of *Watch
}

// collect adds to got what a new segment has for the watches of its host.
func (f *follower) collect(ctx context.Context, seg catalog.SegmentEntry, accounts map[string]*account.Account, got *catch) error {
	watches, err := f.table.watches(ctx, `host = ? AND saved = 0 ORDER BY id`, seg.Host)
	if err != nil || len(watches) == 0 {
		return err
	}
	for _, w := range watches {
		a, ok := accounts[w.Account]
		if !ok {
			if a, err = f.account(ctx, w.Account); err != nil {
				return err
			}
			accounts[w.Account] = a
		}
		switch {
		case a == nil:
			continue
		case w.Once:
			err = f.collectVisit(ctx, w, a, seg, got)
		default:
			var some []*found
			some, err = f.noticesFor(ctx, w, a, seg)
			got.notices = append(got.notices, some...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// collectVisit notes the first visit to the page of a watch that asks for one visit, whatever it
// found.
func (f *follower) collectVisit(ctx context.Context, w *Watch, a *account.Account, seg catalog.SegmentEntry, got *catch) error {
	return f.records.Each(ctx, a, seg, func(c *archive.Cell) bool {
		if w.matches(c.URL) && !c.Time.Before(w.Created) && (got.saved[w.ID].IsZero() || c.Time.Before(got.saved[w.ID])) {
			got.saved[w.ID] = c.Time
		}
		return true
	})
}

// noticesFor returns the notices of a new segment's records for one watch.
func (f *follower) noticesFor(ctx context.Context, w *Watch, a *account.Account, seg catalog.SegmentEntry) (notices []*found, err error) {
	var cells []*archive.Cell
	err = f.records.Each(ctx, a, seg, func(c *archive.Cell) bool {
		if (c.Kind != archive.Revisit || isGone(c)) && c.Status != http.StatusNotModified && w.matches(c.URL) && !c.Time.Before(w.Created) {
			cells = append(cells, c)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	for _, c := range cells {
		captures, err := f.records.Captures(ctx, a, c.URL)
		if err != nil {
			return nil, err
		}
		what, before, changed := judge(c, captures)
		if !changed {
			continue
		}
		n := &found{of: w, Notice: Notice{
			ID: noticeID(w.ID, c.URL, c.Time), Watch: w.ID, Account: w.Account, What: what, URL: c.URL,
			At: c.Time.UTC(), Before: before.UTC(), Edition: seg.Edition, Found: f.table.now().UTC(),
		}}
		if what == PageNew {
			n.Before = time.Time{}
		}
		if what != PageGone {
			n.Title = TitleOf(ctx, c.URL, c.Time, captures)
		}
		if notices = append(notices, n); len(notices) == maxNotices {
			break
		}
	}
	return notices, nil
}

// advance writes what was caught, the notices' deliveries and the new place in one transaction. It
// does nothing if another process has moved the place.
func (f *follower) advance(ctx context.Context, from, to int64, got *catch) error {
	return db.Transact(ctx, f.table.db, nil, func(tx *sql.Tx) error {
		n, err := db.Exec(ctx, tx, `UPDATE watch_place SET since = ? WHERE name = ? AND since = ?`, to, placeName, from)
		if err != nil || n == 0 {
			return err // another process was quicker
		}
		for id, at := range got.saved {
			if _, err := tx.ExecContext(ctx, `UPDATE watches SET saved = ? WHERE id = ? AND saved = 0`, db.Millis(at), id); err != nil {
				return err
			}
		}
		for _, n := range got.notices {
			fresh, err := db.Exec(ctx, tx, `INSERT INTO watch_notices (`+noticeColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
				n.ID, n.Watch, n.Account, n.What, n.URL, n.Title, db.Millis(n.At), db.Millis(n.Before), n.Edition, db.Millis(n.Found))
			if err != nil {
				return err
			}
			if fresh == 0 {
				continue
			}
			for _, d := range f.deliveries(n) {
				if err := insertDelivery(ctx, tx, d); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// deliveries returns what is to be sent of a notice: a mail, a call of the webhook, both or
// nothing.
func (f *follower) deliveries(n *found) (list []delivery) {
	if n.of.Email != "" && !n.of.Waiting && n.of.MailStopped == "" {
		list = append(list, delivery{id: n.ID + "-mail", watch: n.Watch, notice: n.ID, channel: byMail, due: f.nextMail(n.of.Every, n.Found)})
	}
	if n.of.Webhook != "" && n.of.HookStopped == "" {
		list = append(list, delivery{id: n.ID + "-hook", watch: n.Watch, notice: n.ID, channel: byWebhook, due: n.Found})
	}
	return list
}

// nextMail returns the time at which a change is mailed: when it is found, at the next full hour,
// or at seven on the next morning.
func (f *follower) nextMail(every Cadence, at time.Time) time.Time {
	const morning = 7
	local := at.In(f.zone)
	switch every {
	case Hourly:
		return time.Date(local.Year(), local.Month(), local.Day(), local.Hour()+1, 0, 0, 0, f.zone)
	case Daily:
		next := time.Date(local.Year(), local.Month(), local.Day(), morning, 0, 0, 0, f.zone)
		if !next.After(local) {
			next = time.Date(local.Year(), local.Month(), local.Day()+1, morning, 0, 0, 0, f.zone)
		}
		return next
	}
	return at
}
