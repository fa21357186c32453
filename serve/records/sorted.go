package records

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sync/errgroup"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/urlindex"
	"sheaf/internal/cache"
	"sheaf/serve/library"
)

// sorted is a segment's index with the order of its cells by URL key and time.
type sorted struct {
	*archive.Index
	order  []int32
	before []int64 // of each cell: length of the records before it in a WARC view, in bytes
}

// sortCost is what a cell takes in a sorted index besides the index itself, in bytes.
const sortCost = 12

func sortedKey(seg catalog.SegmentEntry) string { return "sorted " + seg.SHA256 }

// sorted reads a segment's index and sorts its cells.
func (r *Records) sorted(ctx context.Context, seg catalog.SegmentEntry) (sorted, error) {
	return cache.GetOrCompute(ctx, r.archive.Memo, sortedKey(seg), func(ctx context.Context) (sorted, int64, error) {
		index, err := r.archive.Segments.Index(ctx, seg)
		if err != nil {
			return sorted{}, 0, err
		}
		s := sorted{index, make([]int32, len(index.Cells)), make([]int64, len(index.Cells))}
		length := int64(0)
		for i := range s.order {
			s.order[i], s.before[i] = int32(i), length
			length += index.Cells[i].WARCLength()
		}
		slices.SortFunc(s.order, func(a, b int32) int {
			x, y := &index.Cells[a], &index.Cells[b]
			return cmp.Or(strings.Compare(x.URLKey, y.URLKey), x.Time.Compare(y.Time), cmp.Compare(a, b))
		})
		return s, int64(1+len(s.order)) * (sortCost + library.IndexCost), nil // it may hold the index longer than the cache does
	})
}

// segmentSource returns the records of one segment.
type segmentSource struct {
	in      segmentOf
	sorted  sorted
	at, end int // of sorted.order: the next, and where it ends
	step    int // 1 or -1
}

// segments opens the indexes of segments, and reads up to 8 at once.
func (s *scan) segments(ctx context.Context, of []segmentOf) ([]source, error) {
	sources := make([]source, len(of))
	read, readCtx := errgroup.WithContext(ctx)
	read.SetLimit(8)
	for i, in := range of {
		from := &segmentSource{in: in}
		sources[i] = from
		open := func() (err error) {
			if from.sorted, err = s.finder.records.sorted(readCtx, *in.segment); err == nil {
				from.limit(s.keys, s.after, s.reverse)
			}
			return err
		}
		if _, known := s.finder.records.archive.Memo.Get(sortedKey(*in.segment)); !known {
			read.Go(open)
		} else if err := open(); err != nil {
			return nil, errors.Join(err, read.Wait())
		}
	}
	return sources, read.Wait()
}

func (s *segmentSource) next(context.Context) (found, bool, error) {
	if s.at == s.end {
		return found{}, false, nil
	}
	n := s.sorted.order[s.at]
	is := found{s.position(s.at), s.in, &s.sorted.Cells[n], s.sorted.before[n]}
	s.at += s.step
	return is, true, nil
}

// position returns the position of the i-th record in order.
func (s *segmentSource) position(i int) urlindex.Position {
	c := &s.sorted.Cells[s.sorted.order[i]]
	return urlindex.Position{Key: c.URLKey, Time: c.Time, Seq: s.in.segment.Seq, Offset: c.Offset}
}

// limit sets where reading begins and ends: within keys, and behind after.
func (s *segmentSource) limit(keys keyRange, after *urlindex.Position, reverse bool) {
	order, cells := s.sorted.order, s.sorted.Cells
	from := sort.Search(len(order), func(i int) bool { return cells[order[i]].URLKey >= keys.key })
	to := from + sort.Search(len(order)-from, func(i int) bool { return !keys.holds(cells[order[from+i]].URLKey) })
	if after != nil {
		behind := from + sort.Search(to-from, func(i int) bool { return s.position(from+i).Compare(*after) > 0 })
		if !reverse {
			from = behind
		} else {
			to = from + sort.Search(behind-from, func(i int) bool { return s.position(from+i).Compare(*after) >= 0 })
		}
	}
	s.at, s.end, s.step = from, to, 1
	if reverse {
		s.at, s.end, s.step = to-1, from-1, -1
	}
}
