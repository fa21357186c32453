package catalog

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"
)

// Snapshot reads the catalog at one version. It may be used concurrently.
type Snapshot struct {
	catalog *Catalog
	state   *state
	expires time.Time // zero: never
	veil    Veil      // nil: nothing is hidden
}

// Veil hides further entries, besides those that are taken down, from the readers of a snapshot.
// Its methods may be called concurrently.
type Veil interface {
	// Touches reports whether entries of the host with a key may be hidden.
	Touches(key string) bool
	// Hides reports whether an entry is hidden.
	Hides(l SegmentEntry) bool
}

// Hide filters the snapshot's entries, lists and changes through the veil. Call it before the
// snapshot is read. Tombstones, Batches, the editions' sums and Since are not filtered.
func (s *Snapshot) Hide(v Veil) { s.veil = v }

// hidden reports whether an entry is taken down or hidden.
func (s *Snapshot) hidden(l SegmentEntry) bool {
	return s.catalog.current().tombstones.cover(l) || s.veil != nil && s.veil.Hides(l)
}

// touched reports whether entries of the host with a key may be taken down or hidden.
func touched(s *Snapshot, key string, stones tombstones) bool {
	return len(stones[key]) > 0 || s.veil != nil && s.veil.Touches(key)
}

// Release releases the version. Do not use the snapshot afterwards.
func (s *Snapshot) Release() { s.catalog.unpin(s) }

// live returns the runs of the version, or ErrExpired.
func (s *Snapshot) live() ([]*run, error) {
	// Compare wall clocks, too: the monotonic clock stops while the machine sleeps.
	now := time.Now()
	if !s.expires.IsZero() && (now.After(s.expires) || now.Round(0).After(s.expires.Round(0))) {
		return nil, fmt.Errorf("version %d: %w", s.state.N, ErrExpired)
	}
	return s.state.runs, nil
}

// rows walks the rows that read finds in the runs of the version, or yields ErrExpired.
func (s *Snapshot) rows(read func(runs []*run) iter.Seq2[[]byte, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		runs, err := s.live()
		if err != nil {
			yield(nil, err)
			return
		}
		read(runs)(yield)
	}
}

// scan walks the version's rows that begin with prefix and are at or behind start.
func (s *Snapshot) scan(ctx context.Context, prefix, start string) iter.Seq2[[]byte, error] {
	return s.rows(func(runs []*run) iter.Seq2[[]byte, error] { return scanFrom(ctx, runs, prefix, start) })
}

// Version returns the number of the version. In version 0 nothing is published.
func (s *Snapshot) Version() int64 { return s.state.N }

// Token returns the highest fencing token of any publisher so far.
func (s *Snapshot) Token() int64 { return s.state.Token }

// Published returns the time at which the version was made.
func (s *Snapshot) Published() time.Time { return s.state.At }

// Tombstones returns the tombstones of a host that are in force now, not at the version.
func (s *Snapshot) Tombstones(host string) []Tombstone {
	return s.catalog.current().tombstones[Key(host)]
}

// entries walks the entries of the host with a key. It leaves out entries that are taken down,
// hidden or, in this version, expired.
func (s *Snapshot) entries(ctx context.Context, key string) iter.Seq2[SegmentEntry, error] {
	return s.entriesOf(ctx, scan(ctx, s.state.runs, tableHost+key+" "))
}

// entriesOf decodes rows of entries. It leaves out entries that are taken down, hidden or, in this
// version, expired.
func (s *Snapshot) entriesOf(ctx context.Context, rows iter.Seq2[[]byte, error]) iter.Seq2[SegmentEntry, error] {
	return s.unexpired(ctx, rows, s.hidden)
}

// unexpired decodes rows of entries. It leaves out entries that have expired in this version, and
// those for which skip returns true.
func (s *Snapshot) unexpired(ctx context.Context, rows iter.Seq2[[]byte, error], skip func(SegmentEntry) bool) iter.Seq2[SegmentEntry, error] {
	return func(yield func(SegmentEntry, error) bool) {
		expired := openExpiries(s.state.runs)
		for row, err := range rows {
			var l SegmentEntry
			gone := false
			if err == nil {
				gone, err = expired.hold(ctx, row)
			}
			if err == nil && !gone {
				l, err = entryOfRow(row)
				gone = err == nil && skip(l)
			}
			if err != nil {
				yield(SegmentEntry{}, err)
				return
			}
			if !gone && !yield(l, nil) {
				return
			}
		}
	}
}

// Host returns a host's entries in the order of publication, without hidden, taken-down and expired
// entries.
func (s *Snapshot) Host(ctx context.Context, host string) ([]SegmentEntry, error) {
	prefix := tableHost + Key(host) + " "
	var entries []SegmentEntry
	for l, err := range s.entriesOf(ctx, s.scan(ctx, prefix, prefix)) {
		if err != nil {
			return nil, fmt.Errorf("catalog: host %s: %w", host, err)
		}
		entries = append(entries, l)
	}
	return entries, nil
}

// HostEdition returns those of Host's entries that one edition published.
func (s *Snapshot) HostEdition(ctx context.Context, host, edition string) ([]SegmentEntry, error) {
	entries, err := s.Host(ctx, host)
	return slices.DeleteFunc(entries, func(l SegmentEntry) bool { return l.Edition != edition }), err
}

// Hosts returns up to limit hosts whose keys begin with surtPrefix and sort behind the key after,
// in the order of their keys. A limit of 0 or less means all.
func (s *Snapshot) Hosts(ctx context.Context, surtPrefix, after string, limit int) ([]HostInfo, error) {
	runs, err := s.live()
	if err != nil {
		return nil, fmt.Errorf("catalog: hosts under %q: %w", surtPrefix, err)
	}
	start := surtPrefix
	if after != "" {
		start = max(start, after+"!") // '!' sorts behind the space that ends a key
	}
	stones, expired := s.catalog.current().tombstones, openExpiries(runs)
	var hosts []HostInfo
	for sum, err := range summaries(ctx, runs, tableSummary, surtPrefix, start) {
		if err != nil {
			return nil, fmt.Errorf("catalog: hosts under %q: %w", surtPrefix, err)
		}
		if limit > 0 && len(hosts) == limit {
			break
		}
		if sum, err = s.shown(ctx, sum, stones, expired); err != nil {
			return nil, fmt.Errorf("catalog: host %s: %w", sum.Host, err)
		}
		if sum.Segments > 0 {
			hosts = append(hosts, sum.info())
		}
	}
	return hosts, nil
}

// shown returns a host's summary without hidden and expired entries. If the host may have such
// entries, it sums up the other entries again.
func (s *Snapshot) shown(ctx context.Context, sum summary, stones tombstones, expired *expiries) (summary, error) {
	key := Key(sum.Host)
	some, err := expired.of(ctx, key)
	if err != nil || !some && !touched(s, key, stones) {
		return sum, err
	}
	anew := summary{Host: sum.Host}
	for l, err := range s.entries(ctx, key) {
		if err != nil {
			return anew, err
		}
		anew.add(summaryOf(l))
	}
	return anew, nil
}

// lookUp decodes the value of the row with this key, and reports whether the row exists.
func (s *Snapshot) lookUp(ctx context.Context, key string, v any) (bool, error) {
	for row, err := range s.scan(ctx, key+" ", "") {
		if err != nil {
			return false, err
		}
		return true, rowValue(row, v)
	}
	return false, nil
}

// Entries walks the entries of the hosts whose keys, each followed by a space, begin with
// surtPrefix: host by host in the order of their keys, and for each host in the order of
// publication. It begins behind the host with key after, or with the first host if after is empty.
// It leaves out the entries that Host leaves out. It is for walks that read everything once, and
// holds one block of each run in memory.
func (s *Snapshot) Entries(ctx context.Context, surtPrefix, after string) iter.Seq2[SegmentEntry, error] {
	return func(yield func(SegmentEntry, error) bool) {
		start := tableHost + surtPrefix
		if after != "" {
			start = max(start, tableHost+after+"!")
		}
		rows := s.rows(func(runs []*run) iter.Seq2[[]byte, error] {
			return scanFrom(ctx, passing(runs...), tableHost+surtPrefix, start)
		})
		for l, err := range s.entriesOf(ctx, rows) {
			if err != nil {
				err = fmt.Errorf("catalog: entries under %q: %w", surtPrefix, err)
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}
