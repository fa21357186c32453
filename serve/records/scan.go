package records

import (
	"cmp"
	"container/heap"
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

// scan is a walk over the records of hosts of one site, in the order of key, time and publication.
// The URL index yields the records of the segments that it covers, and the indexes of the other
// segments yield the rest.
type scan struct {
	finder  *finder
	hosts   []*library.Host
	keys    keyRange
	after   *urlindex.Position // continue behind it; nil: from the beginning
	reverse bool
	wanted  func(*catalog.SegmentEntry) bool // segments for which it is false are passed over
}

// found is a record that a scan has reached.
type found struct {
	at     urlindex.Position
	in     segmentOf
	cell   *archive.Cell
	before int64 // length of the segment's records before it in a WARC view, in bytes
}

// segmentOf is a segment with its host. The host is nil if the URL index has a record of a segment
// that the account does not see, or that is not wanted.
type segmentOf struct {
	host    *library.Host
	segment *catalog.SegmentEntry
}

// capture returns the record, or nil if the account does not see it.
func (is *found) capture(f *finder) *Capture {
	if is.in.host == nil || is.in.host.Gone(*is.in.segment, is.cell.URL, is.cell.Time) {
		return nil
	}
	return &Capture{Cell: is.cell, Segment: is.in.segment, host: is.in.host, finder: f, before: is.before}
}

// source returns records in the order of a scan, and false behind the last.
type source interface {
	next(ctx context.Context) (found, bool, error)
}

// unreadable is an error of the URL index.
type unreadable struct{ error }

func (e unreadable) Unwrap() error { return e.error }

// each calls f with each record. It ends with the first error.
func (s scan) each(ctx context.Context, f func(*found) error) error {
	view := s.finder.index(ctx)
	for {
		err := s.merge(ctx, view, f)
		if _, ok := errors.AsType[unreadable](err); !ok || ctx.Err() != nil {
			return err
		}
		// The index is derived from the segments, which have everything themselves.
		s.finder.records.archive.Log.ErrorContext(ctx, "URL index not read; the segments' own indexes are", "err", err)
		view = new(urlindex.View)
	}
}

// merge scans with one view of the URL index. It sets s.after to how far it came.
func (s *scan) merge(ctx context.Context, view *urlindex.View, f func(*found) error) error {
	sources, err := s.sources(ctx, view)
	if err != nil {
		return err
	}
	queue := &sourceQueue{reverse: s.reverse}
	for _, from := range sources {
		first, ok, err := from.next(ctx)
		if err != nil {
			return err
		}
		if ok {
			queue.heads = append(queue.heads, head{from, first})
		}
	}
	heap.Init(queue)
	var now found              // the same for all: f gets a pointer to it
	var done urlindex.Position // of the last that f has had
	for len(queue.heads) > 0 {
		top := &queue.heads[0]
		now = top.found
		next, ok, err := top.source.next(ctx)
		if err != nil {
			return err
		}
		if ok {
			top.found = next
			heap.Fix(queue, 0)
		} else {
			heap.Pop(queue)
		}
		if err := f(&now); err != nil {
			return err
		}
		done = now.at
		s.after = &done
	}
	return ctx.Err()
}

// sources opens the URL index and the other segments' indexes.
func (s *scan) sources(ctx context.Context, view *urlindex.View) (sources []source, err error) {
	covered := false
	var rest []segmentOf
	for _, h := range s.hosts {
		for i := range h.Segments {
			switch in := (segmentOf{h, &h.Segments[i]}); {
			case !s.wanted(in.segment):
			case view.Covers(in.segment.Seq):
				covered = true
			default:
				rest = append(rest, in)
			}
		}
	}
	segments, err := s.segments(ctx, rest)
	if err != nil || !covered {
		return segments, err
	}
	rows, err := view.Rows(ctx, s.keys.rows(s.after, s.reverse))
	if err != nil {
		return nil, unreadable{err}
	}
	return append(segments, &indexSource{s, rows}), nil
}

// segment returns the segment with a sequence number, if a host has it and it is wanted.
func (s *scan) segment(seq int64) segmentOf {
	for _, h := range s.hosts {
		i := sort.Search(len(h.Segments), func(i int) bool { return h.Segments[i].Seq >= seq })
		if i < len(h.Segments) && h.Segments[i].Seq == seq && s.wanted(&h.Segments[i]) {
			return segmentOf{h, &h.Segments[i]}
		}
	}
	return segmentOf{}
}

// indexSource returns the records that the URL index has.
type indexSource struct {
	*scan
	rows *urlindex.Rows
}

func (x *indexSource) next(ctx context.Context) (found, bool, error) {
	row, err := x.rows.Next(ctx)
	switch {
	case err != nil:
		return found{}, false, unreadable{err}
	case row == nil:
		return found{}, false, nil
	}
	return found{row.Position(), x.segment(row.Seq), &row.Cell, row.Before}, true, nil
}

// ofKey returns the records of one URL key, by time and publication.
func (f *finder) ofKey(ctx context.Context, hosts []*library.Host, key string) (captures []*Capture, err error) {
	s := scan{finder: f, hosts: hosts, keys: keyRange{key, true}, wanted: func(*catalog.SegmentEntry) bool { return true }}
	err = s.each(ctx, func(is *found) error {
		if c := is.capture(f); c != nil {
			captures = append(captures, c)
		}
		if len(captures) == manyRecords && f.enter != nil {
			return f.enter()
		}
		return nil
	})
	return captures, err
}

// byTime orders records of one URL key by time, then by publication.
func byTime(a, b *Capture) int {
	return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Segment.Seq, b.Segment.Seq), cmp.Compare(a.Offset, b.Offset))
}

// sourceQueue is a heap of sources, the one with the next record first.
type sourceQueue struct {
	heads   []head
	reverse bool
}

type head struct {
	source source
	found  found // its next
}

func (q *sourceQueue) Len() int { return len(q.heads) }
func (q *sourceQueue) Less(i, j int) bool {
	if q.reverse {
		i, j = j, i
	}
	return q.heads[i].found.at.Compare(q.heads[j].found.at) < 0
}
func (q *sourceQueue) Swap(i, j int) { q.heads[i], q.heads[j] = q.heads[j], q.heads[i] }
func (q *sourceQueue) Push(x any)    { q.heads = append(q.heads, x.(head)) }
func (q *sourceQueue) Pop() any {
	last := q.heads[len(q.heads)-1]
	q.heads = q.heads[:len(q.heads)-1]
	return last
}

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
