package serve

import (
	"container/heap"
	"context"
	"sort"

	"golang.org/x/sync/errgroup"

	"sheaf/archive/catalog"
)

// source is what one segment has of a stream: records in the stream's order.
type source struct {
	host    *host
	line    catalog.Line
	segment sorted
	at, end int // of segment.order: the next, and where it ends
	step    int // 1 or -1
}

func (s *source) position() Position {
	c := &s.segment.Cells[s.segment.order[s.at]]
	return Position{Key: c.URLKey, Time: c.Time, Seq: s.line.Seq, Offset: c.Offset}
}

// stream calls f with the records of hosts within a range of keys, by key, time
// and publication. They are read out of their segments' indexes.
func (r *Results) stream(ctx context.Context, hosts []*host, keys keyRange, at Position, after *Position, f func(*Capture, Position) error) error {
	sources, err := r.sources(ctx, hosts, keys)
	if err != nil {
		return err
	}
	queue := &sourceQueue{reverse: r.search.Reverse}
	for _, s := range sources {
		s.limit(keys, after, r.search.Reverse)
		if s.at != s.end {
			queue.push(s)
		}
	}
	heap.Init(queue)
	for n := 1; len(queue.heads) > 0; n++ {
		head := &queue.heads[0]
		s, pos := head.source, head.position
		pos.Target, pos.Host = at.Target, at.Host
		number := s.segment.order[s.at]
		cell := &s.segment.Cells[number]
		if s.at += s.step; s.at == s.end {
			heap.Pop(queue)
		} else {
			head.position = s.position()
			heap.Fix(queue, 0)
		}
		r.scanned++
		if r.search.fetched(cell.Time) && !s.host.gone(s.line, cell.URL) {
			if err := f(&Capture{Cell: cell, Line: s.line, host: s.host, before: s.segment.before[number]}, pos); err != nil {
				return err
			}
		}
		if n%stride == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := r.pace(pos); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// sources opens the segments of hosts that may hold something wanted.
func (r *Results) sources(ctx context.Context, hosts []*host, keys keyRange) ([]*source, error) {
	var sources []*source
	for _, h := range hosts {
		for _, line := range h.lines {
			if r.search.spans(line.First, line.Last) {
				sources = append(sources, &source{host: h, line: line})
			}
		}
	}
	load, loadCtx := errgroup.WithContext(ctx)
	load.SetLimit(8)
	for _, s := range sources {
		load.Go(func() (err error) {
			s.segment, err = r.sorted(loadCtx, s.line)
			return err
		})
	}
	return sources, load.Wait()
}

// limit sets from where to where the source is read.
func (s *source) limit(keys keyRange, after *Position, reverse bool) {
	order := s.segment.order
	from := sort.Search(len(order), func(i int) bool { return s.segment.Cells[order[i]].URLKey >= keys.key })
	to := from + sort.Search(len(order)-from, func(i int) bool { return !keys.holds(s.segment.Cells[order[from+i]].URLKey) })
	if after != nil {
		s.end = to
		behind := from + sort.Search(to-from, func(i int) bool {
			s.at = from + i
			return s.position().compare(*after) > 0
		})
		if !reverse {
			from = behind
		} else {
			to = from + sort.Search(behind-from, func(i int) bool {
				s.at = from + i
				return s.position().compare(*after) >= 0
			})
		}
	}
	s.at, s.end, s.step = from, to, 1
	if reverse {
		s.at, s.end, s.step = to-1, from-1, -1
	}
}

// sourceQueue is a heap of sources, the one whose record comes next first.
type sourceQueue struct {
	heads   []head
	reverse bool
}

type head struct {
	source   *source
	position Position // of its next record
}

func (q *sourceQueue) push(s *source) { q.heads = append(q.heads, head{s, s.position()}) }

func (q *sourceQueue) Len() int { return len(q.heads) }
func (q *sourceQueue) Less(i, j int) bool {
	if q.reverse {
		i, j = j, i
	}
	return q.heads[i].position.compare(q.heads[j].position) < 0
}
func (q *sourceQueue) Swap(i, j int) { q.heads[i], q.heads[j] = q.heads[j], q.heads[i] }
func (q *sourceQueue) Push(x any)    { q.heads = append(q.heads, x.(head)) }
func (q *sourceQueue) Pop() any {
	last := q.heads[len(q.heads)-1]
	q.heads = q.heads[:len(q.heads)-1]
	return last
}
