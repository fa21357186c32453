package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"sheaf/archive/sortedrun"
)

// ErrFuture says that a sequence number is none that anything has yet.
var ErrFuture = errors.New("sequence number is in the future")

// Change is one event in the order of sequence numbers: a segment was published,
// or something was taken down, lifted or erased, or a line expired. One of the three is set.
type Change struct {
	Seq       int64         `json:"seq"`
	Version   int64         `json:"version"`
	At        time.Time     `json:"at"`
	Entry     *SegmentEntry `json:"line,omitempty"`
	Tombstone *Tombstone    `json:"tombstone,omitempty"`
	Expiry    *Expiry       `json:"expiry,omitempty"`
}

// Changes gives up to limit events after sequence number since, of the hosts
// whose keys begin with prefix, in their order; 0 is the beginning. Last is what to give as since for
// those that follow: it is since itself where there are none yet, and may be
// higher than the last event's where others were passed over. Lines that are
// taken down now, or have expired, are left out; that they were taken down, or expired, is an event itself. What
// is asked for costs some seeks, however long the log is. It fails with ErrFuture
// where since is higher than any number given.
func (s *Snapshot) Changes(ctx context.Context, since int64, prefix string, limit int) (changes []Change, last int64, err error) {
	changes, last, err = s.changes(ctx, since, prefix, limit)
	if err != nil {
		return nil, since, fmt.Errorf("catalog: changes since %d: %w", since, err)
	}
	return changes, last, nil
}

func (s *Snapshot) changes(ctx context.Context, since int64, prefix string, limit int) (changes []Change, last int64, err error) {
	if since >= s.state.NextSeq {
		return nil, since, fmt.Errorf("the last is %d: %w", s.state.NextSeq-1, ErrFuture)
	}
	n, err := s.versionAfter(ctx, since)
	if err != nil {
		return nil, since, err
	}
	for last = since; n <= s.state.N && len(changes) < limit; n++ {
		e, err := s.catalog.log.read(ctx, n)
		if err != nil {
			return nil, since, err
		}
		if e.Kind == kindMerge {
			continue
		}
		r, err := s.catalog.lib.open(ctx, e.Added)
		if err != nil {
			return nil, since, err
		}
		f := &follower{snapshot: s, entry: e, run: r, since: last, prefix: prefix, limit: limit - len(changes)}
		some, err := f.follow(ctx)
		if err != nil {
			return nil, since, err
		}
		changes = append(changes, some...)
		last = f.last
	}
	return changes, last, nil
}

// versionAfter gives the version that holds the number after since, or the one
// that is yet to come.
func (s *Snapshot) versionAfter(ctx context.Context, since int64) (int64, error) {
	var failed error
	n := sort.Search(int(s.state.N), func(i int) bool {
		if failed != nil {
			return true
		}
		e, err := s.catalog.log.read(ctx, int64(i)+1)
		if err != nil {
			failed = err
			return true
		}
		return e.NextSeq > since+1
	})
	return int64(n) + 1, failed
}

// follower reads the events of one version.
type follower struct {
	snapshot *Snapshot
	entry    *logEntry
	run      *run
	since    int64
	prefix   string
	limit    int

	last int64 // how far it came
}

func (f *follower) follow(ctx context.Context) ([]Change, error) {
	f.last = f.entry.NextSeq - 1
	switch f.entry.Kind {
	case kindPublish:
		return f.lines(ctx)
	case kindExpire:
		return f.expiries(ctx)
	}
	return f.tombstones(ctx)
}

func (f *follower) change(seq int64) Change {
	return Change{Seq: seq, Version: f.entry.N, At: f.entry.At}
}

// lines gives those of a publication: its rows are in the order of their numbers,
// so that the block where to begin follows from their count.
func (f *follower) lines(ctx context.Context) (changes []Change, err error) {
	lines := f.run.Rows - f.run.Summaries - int64(len(f.entry.Batches)) - 1 // the last row is the edition's
	skip := int64(len(f.entry.Batches)) + max(0, f.since+1-(f.entry.NextSeq-lines))
	c := sortedrun.NewCursor(f.run)
	block, row := f.run.blockOf(skip)
	err = c.Enter(ctx, block, row)
	if err == nil {
		err = c.Advance(ctx, tableHost+f.prefix)
	}
	if err != nil {
		return nil, err
	}
	expired := openExpiries(f.snapshot.state.runs)
	for ; beginsWith(c.Row(), tableHost+f.prefix); err = c.Next(ctx) {
		if err != nil {
			return nil, err
		}
		seq, err := seqOfRow(c.Row())
		if err != nil {
			return nil, err
		}
		if seq <= f.since {
			continue
		}
		if len(changes) == f.limit {
			f.last = seq - 1
			return changes, nil
		}
		l, err := entryOfRow(c.Row())
		if err != nil {
			return nil, err
		}
		gone, err := expired.hold(ctx, c.Row())
		if err != nil {
			return nil, err
		}
		if !gone && !f.snapshot.catalog.current().tombstones.cover(l) {
			at := f.change(seq)
			at.Entry = &l
			changes = append(changes, at)
		}
	}
	return changes, err
}

// expiries gives those of a version that has only them. Their rows are in the
// order of their numbers, which they do not hold.
func (f *follower) expiries(ctx context.Context) (changes []Change, err error) {
	first := f.entry.NextSeq - f.run.Rows
	skip := max(0, f.since+1-first)
	seq := first + skip
	c := sortedrun.NewCursor(f.run)
	block, row := f.run.blockOf(skip)
	if err := c.Enter(ctx, block, row); err != nil {
		return nil, err
	}
	for ; c.Row() != nil; err = c.Next(ctx) {
		if err != nil {
			return nil, err
		}
		if beginsWith(c.Row(), tableExpired+f.prefix) {
			if len(changes) == f.limit {
				f.last = seq - 1
				return changes, nil
			}
			e, err := expiryOfRow(c.Row())
			if err != nil {
				return nil, err
			}
			at := f.change(seq)
			at.Expiry = &e
			changes = append(changes, at)
		}
		seq++
	}
	return changes, err
}

// tombstones gives those of a version that has only them; they are few.
func (f *follower) tombstones(ctx context.Context) (changes []Change, err error) {
	for row, err := range scan(ctx, []*run{f.run}, tableTombstone+f.prefix) {
		if err != nil {
			return nil, err
		}
		var t Tombstone
		seq, err := seqOfRow(row)
		if err := errors.Join(err, rowValue(row, &t)); err != nil {
			return nil, err
		}
		if seq > f.since {
			at := f.change(seq)
			at.Tombstone = &t
			changes = append(changes, at)
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return cmp.Compare(a.Seq, b.Seq) })
	if len(changes) > f.limit {
		changes = changes[:f.limit]
		f.last = changes[f.limit-1].Seq
	}
	return changes, nil
}

// blockOf returns the block that holds row n of the run, from 0, and the row's number there.
func (r *run) blockOf(n int64) (block int64, row int) {
	for _, b := range r.blocks {
		if n < int64(b.rows) {
			break
		}
		n -= int64(b.rows)
		block++
	}
	return block, int(n)
}
