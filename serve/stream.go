package serve

import (
	"context"
	"sort"

	"golang.org/x/sync/errgroup"

	"sheaf/archive/catalog"
)

// stream calls f with the records of hosts within a range of keys, by key, time
// and publication.
func (r *Results) stream(ctx context.Context, hosts []*host, keys keyRange, at Position, after *Position, f func(*Capture, Position) error) error {
	s := scan{
		visit: r.visit, hosts: hosts, keys: keys, after: after, reverse: r.search.Reverse,
		wanted: func(l *catalog.SegmentEntry) bool { return r.search.spans(l.First, l.Last) },
	}
	n := 0
	return s.each(ctx, func(is *found) error {
		pos := is.at
		pos.Target, pos.Host = at.Target, at.Host
		if until := r.search.Until; until != nil && until.Target == pos.Target && until.Host == pos.Host && is.at.compare(*until) >= 0 {
			return errPast
		}
		r.scanned++
		if r.search.fetched(is.cell.Time) {
			if c := is.capture(); c != nil {
				if err := f(c, pos); err != nil {
					return err
				}
			}
		}
		if n++; n%stride == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			return r.pace(pos)
		}
		return nil
	})
}

// segmentSource is what one segment has of a scan.
type segmentSource struct {
	lineOf
	segment sorted
	at, end int // of segment.order: the next, and where it ends
	step    int // 1 or -1
}

// segments opens the indexes of segments.
func (s *scan) segments(ctx context.Context, lines []lineOf) ([]source, error) {
	sources := make([]source, len(lines))
	load, loadCtx := errgroup.WithContext(ctx)
	load.SetLimit(8)
	for i, of := range lines {
		load.Go(func() error {
			segment, err := s.sorted(loadCtx, *of.line)
			if err != nil {
				return err
			}
			from := &segmentSource{lineOf: of, segment: segment}
			from.limit(s.keys, s.after, s.reverse)
			sources[i] = from
			return nil
		})
	}
	return sources, load.Wait()
}

func (s *segmentSource) next() (found, bool, error) {
	if s.at == s.end {
		return found{}, false, nil
	}
	n := s.segment.order[s.at]
	is := found{s.position(s.at), s.host, s.line, &s.segment.Cells[n], s.segment.before[n]}
	s.at += s.step
	return is, true, nil
}

// position is that of the i-th record in order.
func (s *segmentSource) position(i int) Position {
	c := &s.segment.Cells[s.segment.order[i]]
	return Position{Key: c.URLKey, Time: c.Time, Seq: s.line.Seq, Offset: c.Offset}
}

// limit sets from where to where the segment is read.
func (s *segmentSource) limit(keys keyRange, after *Position, reverse bool) {
	order := s.segment.order
	from := sort.Search(len(order), func(i int) bool { return s.segment.Cells[order[i]].URLKey >= keys.key })
	to := from + sort.Search(len(order)-from, func(i int) bool { return !keys.holds(s.segment.Cells[order[from+i]].URLKey) })
	if after != nil {
		behind := from + sort.Search(to-from, func(i int) bool { return s.position(from+i).compare(*after) > 0 })
		if !reverse {
			from = behind
		} else {
			to = from + sort.Search(behind-from, func(i int) bool { return s.position(from+i).compare(*after) >= 0 })
		}
	}
	s.at, s.end, s.step = from, to, 1
	if reverse {
		s.at, s.end, s.step = to-1, from-1, -1
	}
}
