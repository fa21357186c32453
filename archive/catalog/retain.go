package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sheaf/archive/sortedrun"
)

// Retention says how long editions are kept.
type Retention struct {
	// Keep is how long an entry is kept after its publication in any case; 0 means for ever. An
	// older entry expires if Expendable says so. Ages count up to now, but at most up to a day
	// after the newest edition that is at least a day old. So a clock that is ahead loses nothing
	// for a day.
	Keep time.Duration
	// Expendable gets all entries of one host in the order of publication. The first n of them are
	// old enough; for each of these it returns whether nothing needs the entry. Later collections
	// ask again about the remaining entries. If Expendable fails, no entry of the host expires.
	Expendable func(ctx context.Context, entries []SegmentEntry, n int) (expendable []bool, err error)
	// Since, if set, is the Retained.Before of an earlier collection. Hosts without an entry that
	// has become old enough since then are skipped. No entry is missed: the newer entry that makes
	// an old one expendable becomes old enough itself, and then the host is not skipped.
	Since time.Time
}

// Retained reports what a collection did with old editions.
type Retained struct {
	Before  time.Time `json:"before"`  // entries published before this were old enough
	Hosts   int64     `json:"hosts"`   // for which Expendable was called
	Expired int64     `json:"expired"` // entries
	Bytes   int64     `json:"bytes"`   // of their segments
	// Failed names the first hundred hosts for which Expendable failed, with the error.
	Failed []string `json:"failed,omitempty"`
}

// maxFailed limits Retained.Failed.
const maxFailed = 100

// retain records the expiry of old entries that nothing needs. From its version on, readers do not
// see these entries, and Collect deletes their objects like others that nothing needs.
func (c *Catalog) retain(ctx context.Context, opt Retention, now time.Time, dryRun bool) (_ *Retained, err error) {
	s, err := c.Pin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	if now, err = s.settled(ctx, now); err != nil {
		return nil, err
	}
	r := &retainer{opt: opt, tombstones: s.state.tombstones, report: &Retained{Before: now.Add(-opt.Keep)}, expired: c.newSorter()}
	defer func() { err = errors.Join(err, r.expired.Close()) }()
	known := openExpiries(s.state.runs)
	for row, err := range scan(ctx, passing(s.state.runs...), tableHost) {
		if err != nil {
			return nil, err
		}
		gone, err := known.hold(ctx, row)
		if err == nil && !gone {
			err = r.add(ctx, row)
		}
		if err != nil {
			return nil, err
		}
	}
	if err = r.end(ctx); err == nil && !dryRun && r.report.Expired > 0 {
		err = c.expire(ctx, r.expired)
	}
	return r.report, err
}

// settled returns the time up to which ages count: now or earlier, see Retention.Keep.
func (s *Snapshot) settled(ctx context.Context, now time.Time) (time.Time, error) {
	const day = 24 * time.Hour
	editions, err := s.Editions(ctx) // their times never go back
	editions = slices.DeleteFunc(editions, func(e Edition) bool { return e.Published.After(now.Add(-day)) })
	if n := len(editions); n > 0 && editions[n-1].Published.Add(day).Before(now) {
		now = editions[n-1].Published.Add(day)
	}
	return now, err
}

// retainer finds the entries that may expire, host by host.
type retainer struct {
	opt        Retention
	tombstones tombstones
	report     *Retained
	expired    *sortedrun.Sorter // rows of expiries

	host    string         // key of the host that is being read
	entries []SegmentEntry // of the host that are not taken down; empty if skip is true
	skip    bool           // no entry of the host may expire
}

// add takes the next row of the table of entries. It skips hosts whose entries may not expire.
func (r *retainer) add(ctx context.Context, row []byte) error {
	host := hostOfRow(row)
	if host == r.host && r.skip {
		return nil
	}
	e, err := entryOfRow(row)
	if err != nil {
		return err
	}
	if host != r.host {
		if err := r.end(ctx); err != nil {
			return err
		}
		r.host, r.skip = host, !e.Published.Before(r.report.Before) || r.tombstones.anyDown(host)
	}
	if !r.skip && !r.tombstones.cover(e) {
		r.entries = append(r.entries, e)
	}
	return nil
}

// end decides which entries of the host expire. It always keeps the last entry, so that a host with
// an archive has an edition, too.
func (r *retainer) end(ctx context.Context) error {
	entries := r.entries
	r.entries = nil
	old := 0
	for old < len(entries) && entries[old].Published.Before(r.report.Before) {
		old++
	}
	n := min(old, len(entries)-1)
	if n <= 0 || entries[old-1].Published.Before(r.opt.Since) {
		return nil
	}
	r.report.Hosts++
	expendable, err := r.opt.Expendable(ctx, entries, n)
	if err != nil {
		if ctx.Err() == nil && len(r.report.Failed) < maxFailed {
			r.report.Failed = append(r.report.Failed, fmt.Sprintf("%s: %v", entries[0].Host, err))
		}
		return ctx.Err()
	}
	for i, e := range entries[:n] {
		if !expendable[i] {
			continue
		}
		x := Expiry{Host: e.Host, Edition: e.Edition, Entry: e.Seq}
		row, err := appendRow(nil, x.key(), x)
		if err != nil {
			return err
		}
		if err := r.expired.Add(row); err != nil {
			return err
		}
		r.report.Expired++
		r.report.Bytes += e.Length
	}
	return nil
}

// Expiry says that an entry is no longer kept: its edition is old enough, and no entry that is kept
// needs it. An expiry is never undone.
type Expiry struct {
	Host    string `json:"host"`
	Edition string `json:"edition"`
	Entry   int64  `json:"line"` // the entry's sequence number
}

func (e Expiry) key() string { return tableExpired + Key(e.Host) + " " + seqKey(e.Entry) }

// expiryOfRow decodes a row of the table of expiries and checks it against its key.
func expiryOfRow(row []byte) (Expiry, error) {
	var e Expiry
	if err := rowValue(row, &e); err != nil {
		return e, err
	}
	if want := e.key(); string(rowKey(row)) != want {
		return e, fmt.Errorf("row %q holds the expiry %q: %w", rowKey(row), want, ErrCorrupt)
	}
	return e, nil
}

// expiries tells which entries have expired. Ask about entries in the order of their rows, and not
// concurrently. If no entry has expired, it costs nothing.
type expiries struct {
	table *table // nil: no entry has expired
	begun bool
}

func openExpiries(runs []*run) *expiries {
	var with []*run
	for _, r := range runs {
		if r.Expired > 0 {
			with = append(with, r)
		}
	}
	if len(with) == 0 {
		return &expiries{}
	}
	return &expiries{table: openTable(with)}
}

// hold reports whether the entry of a row has expired.
func (e *expiries) hold(ctx context.Context, row []byte) (bool, error) {
	if e.table == nil {
		return false, nil
	}
	return e.under(ctx, tableExpired+string(rowKey(row)[len(tableHost):])+" ")
}

// of reports whether any entry of the host has expired. It replaces hold for callers that ask host
// by host, in the order of the hosts' keys.
func (e *expiries) of(ctx context.Context, host string) (bool, error) {
	if e.table == nil {
		return false, nil
	}
	return e.under(ctx, tableExpired+host+" ")
}

// under moves forward to the rows that begin with key, and reports whether there are any.
func (e *expiries) under(ctx context.Context, key string) (bool, error) {
	step := e.table.advance
	if !e.begun {
		step, e.begun = e.table.seek, true
	}
	err := step(ctx, key)
	return e.table.under(key), err
}

// expire records expiries, given as rows, in one version. It leaves out expiries that another
// collection has recorded meanwhile.
func (c *Catalog) expire(ctx context.Context, expired *sortedrun.Sorter) error {
	_, err := c.append(ctx, func(head *state) (*logRecord, error) {
		return c.compose(ctx, head, kindExpire, c.after(head), func(w *runWriter) error {
			rows, err := expired.Rows(ctx)
			for known := openExpiries(head.runs); err == nil && rows.Row() != nil; err = rows.Next(ctx) {
				there, err := known.hold(ctx, rows.Row())
				if err == nil && !there {
					err = w.add(rows.Row())
				}
				if err != nil {
					return err
				}
			}
			return err
		})
	})
	return err
}
