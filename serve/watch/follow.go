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
)

const (
	// atOnce is how many segments are looked at between two writes of the place.
	atOnce = 200
	// mostOf is how many notices one segment gives one watch: of a host's first visit
	// every page is new, and nobody reads ten thousand lines.
	mostOf = 200
)

const placeName = "changes"

// Follow makes notices of what is published, until ctx ends. Several may follow at once: one of
// them gets on, the others come after.
func (s *Watches) Follow(ctx context.Context, poll time.Duration) error {
	for ctx.Err() == nil {
		more, err := s.step(ctx)
		if err != nil && ctx.Err() == nil {
			s.opt.Log.ErrorContext(ctx, "watch: looking at what was published failed and will be repeated", "err", err)
		}
		if more && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(poll):
		}
	}
	return nil
}

// step looks at the next segments. more says that there may be others already.
func (s *Watches) step(ctx context.Context) (more bool, err error) {
	since, err := s.place(ctx)
	if err != nil {
		return false, err
	}
	lines, last, err := s.opt.Library.Records.Published(ctx, since, atOnce)
	if err != nil || last == since {
		return false, err
	}
	var notices []*found
	accounts := make(map[string]*account.Account)
	for _, line := range lines {
		some, err := s.look(ctx, line, accounts)
		if err != nil {
			return false, fmt.Errorf("host %s in edition %s: %w", line.Host, line.Edition, err)
		}
		notices = append(notices, some...)
	}
	return last > since, s.advance(ctx, since, last, notices)
}

// place is how far the feed was read. The first time that is to its end: what was
// published before anybody watched is no news.
func (s *Watches) place(ctx context.Context) (since int64, err error) {
	err = s.opt.DB.QueryRowContext(ctx, `SELECT since FROM watch_place WHERE name = ?`, placeName).Scan(&since)
	if !errors.Is(err, sql.ErrNoRows) {
		return since, err
	}
	if _, since, err = s.opt.Library.Records.Published(ctx, -1, 0); err != nil {
		return 0, err
	}
	_, err = s.opt.DB.ExecContext(ctx, `INSERT INTO watch_place (name, since) VALUES (?, ?) ON CONFLICT DO NOTHING`, placeName, since)
	return since, err
}

// found is a notice and what it is of.
type found struct {
	Notice
	of *Watch
}

// look compares a new segment's records with what its host's watches want.
func (s *Watches) look(ctx context.Context, line catalog.SegmentEntry, accounts map[string]*account.Account) (notices []*found, err error) {
	watches, err := s.OfHost(ctx, line.Host)
	if err != nil || len(watches) == 0 {
		return nil, err
	}
	for _, w := range watches {
		a, ok := accounts[w.Account]
		if !ok {
			if a, err = s.opt.Account(ctx, w.Account); err != nil {
				return nil, err
			}
			accounts[w.Account] = a
		}
		if a == nil {
			continue
		}
		some, err := s.lookFor(ctx, w, a, line)
		if err != nil {
			return nil, err
		}
		notices = append(notices, some...)
	}
	return notices, nil
}

func (s *Watches) lookFor(ctx context.Context, w *Watch, a *account.Account, line catalog.SegmentEntry) (notices []*found, err error) {
	var cells []*archive.Cell
	err = s.opt.Library.Records.Each(ctx, a, line, func(c *archive.Cell) bool {
		if c.Kind != archive.Revisit && c.Status != http.StatusNotModified && w.matches(c.URL) && !c.Time.Before(w.Created) {
			cells = append(cells, c)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	for _, c := range cells {
		captures, err := s.opt.Library.Records.Captures(ctx, a, c.URL)
		if err != nil {
			return nil, err
		}
		what, before, tells := judge(c, captures)
		if !tells {
			continue
		}
		n := &found{of: w, Notice: Notice{
			ID: noticeID(w.ID, c.URL, c.Time), Watch: w.ID, Account: w.Account, What: what, URL: c.URL,
			At: c.Time.UTC(), Before: before.UTC(), Edition: line.Edition, Found: s.opt.Now().UTC(),
		}}
		if what == PageNew {
			n.Before = time.Time{}
		}
		if what != PageGone {
			n.Title = titleOf(ctx, c, captures)
		}
		if notices = append(notices, n); len(notices) == mostOf {
			break
		}
	}
	return notices, nil
}

// advance writes notices, deliveries and the new place together, if the place is still where it was.
func (s *Watches) advance(ctx context.Context, from, to int64, notices []*found) error {
	tx, err := s.opt.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	res, err := tx.ExecContext(ctx, `UPDATE watch_place SET since = ? WHERE name = ? AND since = ?`, to, placeName, from)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return err // another process was quicker
	}
	for _, n := range notices {
		res, err := tx.ExecContext(ctx, `INSERT INTO watch_notices (`+noticeColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			n.ID, n.Watch, n.Account, n.What, n.URL, n.Title, db.Millis(n.At), db.Millis(n.Before), n.Edition, db.Millis(n.Found))
		if err != nil {
			return err
		}
		if fresh, err := res.RowsAffected(); err != nil || fresh == 0 {
			if err != nil {
				return err
			}
			continue
		}
		for _, d := range s.deliveries(n) {
			if err := enter(ctx, tx, d); err != nil {
				return err
			}
		}
	}
	return tx.Commit()
}

// deliveries are those that a notice asks for.
func (s *Watches) deliveries(n *found) (list []delivery) {
	if n.of.Email != "" && !n.of.Waiting && n.of.MailStopped == "" {
		list = append(list, delivery{id: n.ID + "-mail", watch: n.Watch, notice: n.ID, channel: byMail, due: s.nextMail(n.of.Every, n.Found)})
	}
	if n.of.Webhook != "" && n.of.HookStopped == "" {
		list = append(list, delivery{id: n.ID + "-hook", watch: n.Watch, notice: n.ID, channel: byWebhook, due: n.Found})
	}
	return list
}

// nextMail is when what was found is told: at once, at the full hour, or at the first hour of day that people read mail.
func (s *Watches) nextMail(every Cadence, at time.Time) time.Time {
	const morning = 7
	local := at.In(s.opt.Zone)
	switch every {
	case Hourly:
		return time.Date(local.Year(), local.Month(), local.Day(), local.Hour()+1, 0, 0, 0, s.opt.Zone)
	case Daily:
		next := time.Date(local.Year(), local.Month(), local.Day(), morning, 0, 0, 0, s.opt.Zone)
		if !next.After(local) {
			next = time.Date(local.Year(), local.Month(), local.Day()+1, morning, 0, 0, 0, s.opt.Zone)
		}
		return next
	}
	return at
}
