package catalog

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"
)

// Snapshot reads the catalog at one version. It may be used from many goroutines.
type Snapshot struct {
	catalog *Catalog
	state   *state
	expires time.Time // zero: never
}

// Release lets go of the version. The snapshot must not be used afterwards.
func (s *Snapshot) Release() { s.catalog.unpin(s) }

// live gives the runs to read, as long as the snapshot may be read.
func (s *Snapshot) live() ([]*run, error) {
	// By the wall clock too: the other one stands still while the machine sleeps.
	now := time.Now()
	if !s.expires.IsZero() && (now.After(s.expires) || now.Round(0).After(s.expires.Round(0))) {
		return nil, fmt.Errorf("catalog: version %d: %w", s.state.N, ErrExpired)
	}
	return s.state.runs, nil
}

// Version is the version's number; 0 is a catalog in which nothing is published.
func (s *Snapshot) Version() int64 { return s.state.N }

// Token is the highest that a publisher has shown so far.
func (s *Snapshot) Token() int64 { return s.state.Token }

// Published is when the version was appended.
func (s *Snapshot) Published() time.Time { return s.state.At }

// Tombstones gives what is taken down of a host, as of now and not of the version.
func (s *Snapshot) Tombstones(host string) []Tombstone {
	return s.catalog.current().tombstones[Key(host)]
}

// lines walks the lines whose rows begin with prefix and lie at or behind start,
// without those that are taken down or, in this version, expired.
func (s *Snapshot) entries(ctx context.Context, runs []*run, prefix, start string) iter.Seq2[SegmentEntry, error] {
	return s.entriesOf(ctx, scanFrom(ctx, runs, prefix, start))
}

// linesOf gives the lines of rows, without those that are taken down or, in this version, expired.
func (s *Snapshot) entriesOf(ctx context.Context, rows iter.Seq2[[]byte, error]) iter.Seq2[SegmentEntry, error] {
	return func(yield func(SegmentEntry, error) bool) {
		expired := openExpiries(s.state.runs)
		for row, err := range rows {
			if err != nil {
				yield(SegmentEntry{}, err)
				return
			}
			gone, err := expired.hold(ctx, row)
			if err != nil {
				yield(SegmentEntry{}, err)
				return
			}
			if gone {
				continue
			}
			l, err := entryOfRow(row)
			if err == nil && s.catalog.current().tombstones.cover(l) {
				continue
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

// Host gives all that is published of a host, in the order of publication.
func (s *Snapshot) Host(ctx context.Context, host string) ([]SegmentEntry, error) {
	runs, err := s.live()
	if err != nil {
		return nil, err
	}
	prefix := tableHost + Key(host) + " "
	var lines []SegmentEntry
	for l, err := range s.entries(ctx, runs, prefix, prefix) {
		if err != nil {
			return nil, fmt.Errorf("catalog: host %s: %w", host, err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// HostEdition gives what one edition brought of a host.
func (s *Snapshot) HostEdition(ctx context.Context, host, edition string) ([]SegmentEntry, error) {
	lines, err := s.Host(ctx, host)
	return slices.DeleteFunc(lines, func(l SegmentEntry) bool { return l.Edition != edition }), err
}

// Hosts gives up to limit hosts whose keys begin with surtPrefix and sort behind
// after, in the order of their keys. No limit is set by limit <= 0.
func (s *Snapshot) Hosts(ctx context.Context, surtPrefix, after string, limit int) ([]HostInfo, error) {
	runs, err := s.live()
	if err != nil {
		return nil, err
	}
	start := surtPrefix
	if after != "" {
		start = max(start, after+"!") // '!' sorts behind the space that ends a key
	}
	stones, expired := s.catalog.current().tombstones, openExpiries(runs)
	var hosts []HostInfo
	for sum, err := range eachSummary(ctx, runs, surtPrefix, start) {
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

// shown gives a host's summary without what is taken down or expired: where
// there is such, its lines are summed up anew.
func (s *Snapshot) shown(ctx context.Context, sum summary, stones tombstones, expired *expiries) (summary, error) {
	key := Key(sum.Host)
	some, err := expired.of(ctx, key)
	if err != nil || !some && len(stones[key]) == 0 {
		return sum, err
	}
	anew := summary{Host: sum.Host}
	rows := tableHost + key + " "
	for l, err := range s.entries(ctx, s.state.runs, rows, rows) {
		if err != nil {
			return anew, err
		}
		anew.add(summaryOf(l))
	}
	return anew, nil
}

// lookUp decodes the value of the one row that has a key.
func (s *Snapshot) lookUp(ctx context.Context, key string, v any) (bool, error) {
	runs, err := s.live()
	if err != nil {
		return false, err
	}
	for row, err := range scan(ctx, runs, key+" ") {
		if err != nil {
			return false, err
		}
		return true, rowValue(row, v)
	}
	return false, nil
}

// Entries walks all that is published of the hosts whose keys, each with a blank behind it,
// begin with surtPrefix: host by host in the order of their keys, each host's in the order
// of publication. It is for who reads all of it once, and holds a block of each run.
func (s *Snapshot) Entries(ctx context.Context, surtPrefix string) iter.Seq2[SegmentEntry, error] {
	return func(yield func(SegmentEntry, error) bool) {
		runs, err := s.live()
		if err != nil {
			yield(SegmentEntry{}, err)
			return
		}
		for l, err := range s.entriesOf(ctx, pass(ctx, runs, tableHost+surtPrefix)) {
			if err != nil {
				err = fmt.Errorf("catalog: lines under %q: %w", surtPrefix, err)
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}
