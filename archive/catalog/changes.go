package catalog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"
	"time"

	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
	"sheaf/internal/wire"
)

// ErrFuture says that a sequence number is higher than any that exists.
var ErrFuture = errors.New("sequence number is in the future")

// Change is one event in the order of sequence numbers: an entry was published, something was taken
// down, lifted or erased, or an entry expired. One of the three pointers is set.
type Change struct {
	Seq       int64         `json:"seq"`
	Version   int64         `json:"version"`
	At        time.Time     `json:"at"`
	Entry     *SegmentEntry `json:"line,omitempty"`
	Tombstone *Tombstone    `json:"tombstone,omitempty"`
	Expiry    *Expiry       `json:"expiry,omitempty"`
}

// Changes returns up to limit events after sequence number since, of the hosts whose keys begin
// with prefix, in the order of sequence numbers. A since of 0 is before the first event. Pass last
// as since to get the next events. last is since itself if there are no events yet, and may be
// higher than the last event's number if other hosts' events were skipped.
//
// Entries that are now taken down or have expired are left out; the take-down and the expiry are
// events themselves. The cost hardly depends on the log's length. Changes returns ErrFuture if
// since is higher than any number that exists.
func (s *Snapshot) Changes(ctx context.Context, since int64, prefix string, limit int) (changes []Change, last int64, err error) {
	defer wrap(&err, "catalog: changes since %d", since)
	last = since
	err = s.follow(ctx, since, func(f *follower) (more bool, err error) {
		more, err = f.changes(ctx, prefix, func(c Change) bool {
			if len(changes) == limit {
				last = c.Seq - 1
				return false
			}
			changes = append(changes, c)
			return true
		})
		if more {
			last = f.entry.NextSeq - 1
		}
		return more && len(changes) < limit, err
	})
	return changes, last, err
}

// follow calls fn with a follower of each version, in order, until fn returns false. It begins with
// the version that assigned sequence number since+1.
func (s *Snapshot) follow(ctx context.Context, since int64, fn func(*follower) (more bool, err error)) error {
	if since >= s.state.NextSeq {
		return fmt.Errorf("the last is %d: %w", s.state.NextSeq-1, ErrFuture)
	}
	n, err := s.versionAfter(ctx, since)
	for more := true; err == nil && more && n <= s.state.N; n++ {
		var e *logEntry
		if e, err = s.catalog.log.read(ctx, n); err == nil {
			more, err = fn(&follower{snapshot: s, entry: e, since: since})
		}
	}
	return err
}

// versionAfter returns the number of the version that assigned sequence number since+1. If no
// version has yet, it returns the number of the next version. It reads few versions if the number
// is one of the last, as it is for readers that follow all changes.
func (s *Snapshot) versionAfter(ctx context.Context, since int64) (int64, error) {
	var failed error
	isLater := func(i int) bool { // than version i, counted from 0
		if failed != nil {
			return true
		}
		e, err := s.catalog.log.read(ctx, int64(i)+1)
		if err != nil {
			failed = err
			return true
		}
		return e.NextSeq > since+1
	}
	least, most := 0, int(s.state.N)
	for step := 1; least == 0 && most > 0; step *= 2 {
		if i := max(most-step, 0); isLater(i) {
			most = i
		} else {
			least = i + 1
		}
	}
	n := least + sort.Search(most-least, func(i int) bool { return isLater(least + i) })
	return int64(n) + 1, failed
}

// follower reads the events of one version after a sequence number, in order. Its methods call
// yield with each event until yield returns false; then they return false, too.
type follower struct {
	snapshot *Snapshot
	entry    *logEntry
	since    int64
}

// open opens the run that the version added.
func (f *follower) open(ctx context.Context) (*run, error) {
	return f.snapshot.catalog.lib.open(ctx, f.entry.Added)
}

// changes yields the events of the hosts whose keys begin with prefix, without entries that are
// taken down, hidden or expired.
func (f *follower) changes(ctx context.Context, prefix string, yield func(Change) bool) (more bool, err error) {
	if f.entry.Kind == kindMerge {
		return true, nil
	}
	r, err := f.open(ctx)
	if err != nil {
		return false, err
	}
	switch f.entry.Kind {
	case kindPublish:
		return f.entries(ctx, r, prefix, yield)
	case kindExpire:
		return f.expiries(ctx, r, prefix, yield)
	}
	return f.tombstones(ctx, r, prefix, yield)
}

func (f *follower) change(seq int64) Change {
	return Change{Seq: seq, Version: f.entry.N, At: f.entry.At}
}

// entries yields a publication's entries. Their rows are in the order of sequence numbers, so the
// blocks' numbers of rows tell in which block to begin.
func (f *follower) entries(ctx context.Context, r *run, prefix string, yield func(Change) bool) (more bool, err error) {
	entries := r.Rows - r.Summaries - int64(len(f.entry.Batches)) - 1 // the last row is the edition's
	skip := int64(len(f.entry.Batches)) + max(0, f.since+1-(f.entry.NextSeq-entries))
	return f.each(f.snapshot.entriesOf(ctx, r.from(ctx, skip, tableHost+prefix)), yield)
}

// each yields those of the entries that come after f.since.
func (f *follower) each(entries iter.Seq2[SegmentEntry, error], yield func(Change) bool) (more bool, err error) {
	for l, err := range entries {
		if err != nil {
			return false, err
		}
		c := f.change(l.Seq)
		c.Entry = &l
		if l.Seq > f.since && !yield(c) {
			return false, nil
		}
	}
	return true, nil
}

// expiries yields the events of a version that has only expiries. The rows do not contain the
// expiries' sequence numbers, but are in their order.
func (f *follower) expiries(ctx context.Context, r *run, prefix string, yield func(Change) bool) (more bool, err error) {
	first := f.entry.NextSeq - r.Rows
	skip := max(0, f.since+1-first)
	c := f.change(first + skip)
	for row, err := range r.from(ctx, skip, "") {
		if err != nil {
			return false, err
		}
		if bytes.HasPrefix(row, []byte(tableExpired+prefix)) {
			e, err := expiryOfRow(row)
			if err != nil {
				return false, err
			}
			c.Expiry = &e
			if !yield(c) {
				return false, nil
			}
		}
		c.Seq++
	}
	return true, nil
}

// tombstones yields the events of a version that has only tombstones. They are few.
func (f *follower) tombstones(ctx context.Context, r *run, prefix string, yield func(Change) bool) (more bool, err error) {
	var changes []Change
	for row, err := range scan(ctx, []*run{r}, tableTombstone+prefix) {
		if err != nil {
			return false, err
		}
		var t Tombstone
		seq, err := seqOfRow(row)
		if err := errors.Join(err, rowValue(row, &t)); err != nil {
			return false, err
		}
		if seq > f.since {
			c := f.change(seq)
			c.Tombstone = &t
			changes = append(changes, c)
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return cmp.Compare(a.Seq, b.Seq) })
	return !slices.ContainsFunc(changes, func(c Change) bool { return !yield(c) }), nil
}

// from walks the run's rows that begin with prefix, without its first n rows.
func (r *run) from(ctx context.Context, n int64, prefix string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		c := sortedrun.NewCursor(r)
		block, row := r.blockOf(n)
		err := c.Enter(ctx, block, row)
		if err == nil {
			err = c.Advance(ctx, prefix)
		}
		for ; err == nil && c.Row() != nil && bytes.HasPrefix(c.Row(), []byte(prefix)); err = c.Next(ctx) {
			if !yield(c.Row(), nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
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

// Since walks the entries and erasures after sequence number since, in the order of sequence
// numbers. It includes entries that are taken down, because a take-down may be lifted, but no
// erased or expired entries. It is for indexes that are derived from all entries, and reads the
// runs of the versions after since. It returns ErrFuture if since is higher than any number that
// exists.
func (s *Snapshot) Since(ctx context.Context, since int64) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		if err := s.since(ctx, since, func(c Change) bool { return yield(c, nil) }); err != nil {
			yield(Change{}, fmt.Errorf("catalog: entries since %d: %w", since, err))
		}
	}
}

func (s *Snapshot) since(ctx context.Context, since int64, yield func(Change) bool) error {
	if _, err := s.live(); err != nil {
		return err
	}
	return s.follow(ctx, since, func(f *follower) (more bool, err error) {
		if f.entry.Kind != kindPublish && f.entry.Kind != kindErase {
			return true, nil
		}
		r, err := f.open(ctx)
		if err != nil {
			return false, err
		}
		if f.entry.Kind == kindErase {
			return f.tombstones(ctx, r, "", func(c Change) bool { return c.Tombstone.Act != Erase || yield(c) })
		}
		skip := func(l SegmentEntry) bool {
			return l.Seq <= since || s.catalog.current().tombstones.erased([]SegmentEntry{l})
		}
		return f.each(s.unexpired(ctx, scan(ctx, passing(r), tableHost), skip), yield)
	})
}

// Expired walks all expiries up to the version, in the order of their hosts' keys.
func (s *Snapshot) Expired(ctx context.Context) iter.Seq2[Expiry, error] {
	return decoded(s.rows(func(runs []*run) iter.Seq2[[]byte, error] { return scan(ctx, passing(runs...), tableExpired) }), expiryOfRow)
}

// RecordDigest returns the SHA-256 of the record of version n, in hexadecimal, or ErrNotExist. Each
// record holds the digest of the record before. So two logs with the same digest for a version are
// the same up to that version.
func RecordDigest(ctx context.Context, st store.Store, n int64) (string, error) {
	data, err := store.ReadAll(ctx, st, versionKey(n), 0, -1)
	if errors.Is(err, store.ErrNotExist) {
		return "", fmt.Errorf("catalog: version %d: %w", n, ErrNotExist)
	}
	if err != nil {
		return "", fmt.Errorf("catalog: version %d: %w", n, err)
	}
	return wire.Digest(data), nil
}

// Checkpoint is the version in which a sequence number was assigned. Each version holds the digest
// of the version before. So two logs with the same checkpoint for a number are equal up to that
// version.
type Checkpoint struct {
	Version int64
	At      time.Time
	Digest  string // SHA-256 of the version's record; empty for number 0
}

// Last returns the highest sequence number of the version, or 0.
func (s *Snapshot) Last() int64 { return s.state.NextSeq - 1 }

// Checkpoint returns the checkpoint of a sequence number; for 0, the zero value. It returns
// ErrFuture if the number does not exist yet.
func (s *Snapshot) Checkpoint(ctx context.Context, seq int64) (Checkpoint, error) {
	switch {
	case seq < 0 || seq > s.Last():
		return Checkpoint{}, fmt.Errorf("catalog: checkpoint of %d: the last is %d: %w", seq, s.Last(), ErrFuture)
	case seq == 0:
		return Checkpoint{}, nil
	}
	n, err := s.versionAfter(ctx, seq-1)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("catalog: checkpoint of %d: %w", seq, err)
	}
	e, err := s.catalog.log.read(ctx, n)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("catalog: checkpoint of %d: %w", seq, err)
	}
	return Checkpoint{Version: e.N, At: e.At, Digest: e.digest}, nil
}

// Withdrawals counts all take-downs, lifts, erasures and expiries up to the version. These events
// are never removed. So if two versions have the same count, nothing was withdrawn or came back
// between them.
func (s *Snapshot) Withdrawals() int64 {
	n := int64(0)
	for _, r := range s.state.Runs {
		n += r.Tombstones + r.Expired
	}
	return n
}
