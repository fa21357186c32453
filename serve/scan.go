package serve

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/urlindex"
)

// scan is a walk over the records of some hosts whose URLs have keys of the same site, by key,
// time and publication. What the URL index covers is read out of it, the rest out of the segments'
// own indexes; where a record is found makes no difference to what is found, nor to its place.
type scan struct {
	*visit
	hosts   []*host
	keys    keyRange
	after   *Position // go on behind it; nil: from the beginning
	reverse bool
	wanted  func(*catalog.SegmentEntry) bool // lines of others are passed over
}

// found is what a scan comes to.
type found struct {
	at     Position // without Target and Host
	host   *host    // nil: what the URL index has of a line that is not here for the account, or not wanted
	line   *catalog.SegmentEntry
	cell   *archive.Cell
	before int64
}

// capture gives the record, nil where it is not to be seen.
func (f *found) capture() *Capture {
	if f.host == nil || f.host.gone(*f.line, f.cell.URL) {
		return nil
	}
	return &Capture{Cell: f.cell, Line: *f.line, host: f.host, before: f.before}
}

// source gives records in the order of a scan, and false behind the last.
type source interface {
	next() (found, bool, error)
}

// unreadable is why the URL index cannot be gone on with.
type unreadable struct{ error }

func (e unreadable) Unwrap() error { return e.error }

// each calls f with each record, until one fails.
func (s scan) each(ctx context.Context, f func(*found) error) error {
	view := s.urls(ctx)
	for {
		err := s.merge(ctx, view, f)
		var bad unreadable
		if !errors.As(err, &bad) || ctx.Err() != nil {
			return err
		}
		// It is derived: the segments themselves have it all.
		s.Log.ErrorContext(ctx, "URL index not read; the segments' own indexes are", "err", err)
		view = new(urlindex.View)
	}
}

// merge walks with one view of the URL index, and leaves in s how far it came.
func (s *scan) merge(ctx context.Context, view *urlindex.View, f func(*found) error) error {
	sources, stop, err := s.sources(ctx, view)
	if err != nil {
		return err
	}
	defer stop()
	queue := &sourceQueue{reverse: s.reverse}
	for _, from := range sources {
		first, ok, err := from.next()
		if err != nil {
			return err
		}
		if ok {
			queue.heads = append(queue.heads, head{from, first})
		}
	}
	heap.Init(queue)
	for len(queue.heads) > 0 {
		top := &queue.heads[0]
		now := top.found
		next, ok, err := top.source.next()
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
		s.after = &now.at
	}
	return ctx.Err()
}

// sources opens what the scan is fed by.
func (s *scan) sources(ctx context.Context, view *urlindex.View) (sources []source, stop func(), err error) {
	covered := make(map[int64]lineOf)
	var rest []lineOf
	for _, h := range s.hosts {
		for i := range h.lines {
			switch of := (lineOf{h, &h.lines[i]}); {
			case !s.wanted(of.line):
			case view.Covers(of.line.Seq):
				covered[of.line.Seq] = of
			default:
				rest = append(rest, of)
			}
		}
	}
	segments, err := s.segments(ctx, rest)
	if err != nil {
		return nil, nil, err
	}
	if len(covered) == 0 {
		return segments, func() {}, nil
	}
	next, stop := iter.Pull2(view.Rows(ctx, s.keys.rows(s.after, s.reverse)))
	return append(segments, &indexSource{covered, next}), stop, nil
}

// lineOf is a line with the host that it is of.
type lineOf struct {
	host *host
	line *catalog.SegmentEntry
}

// indexSource is what the URL index has.
type indexSource struct {
	covered map[int64]lineOf // by Seq
	rows    func() (*urlindex.Row, error, bool)
}

func (x *indexSource) next() (found, bool, error) {
	row, err, ok := x.rows()
	if err != nil {
		return found{}, false, unreadable{err}
	}
	if !ok {
		return found{}, false, nil
	}
	p := row.Position()
	of := x.covered[row.Seq]
	return found{Position{Key: p.Key, Time: p.Time, Seq: p.Seq, Offset: p.Offset}, of.host, of.line, &row.Cell, row.Before}, true, nil
}

// urls gives the URL index as this visit sees it.
func (v *visit) urls(ctx context.Context) *urlindex.View {
	v.urlIndex.Do(func() {
		v.urlIndex.view = new(urlindex.View)
		if v.URLs == nil {
			return
		}
		view, err := v.URLs.Current(context.WithoutCancel(ctx))
		if err != nil {
			v.Log.ErrorContext(ctx, "URL index is not the newest", "err", err)
		}
		v.urlIndex.view = view
	})
	return v.urlIndex.view
}

// keyRange is one URL key, or all that begin with it.
type keyRange struct {
	key   string
	exact bool
}

func (k keyRange) holds(key string) bool {
	if k.exact {
		return key == k.key
	}
	return strings.HasPrefix(key, k.key)
}

// rows is the stretch of the URL index that holds these keys.
func (k keyRange) rows(after *Position, reverse bool) urlindex.Range {
	in := urlindex.Prefix(k.key)
	if k.exact {
		in = urlindex.Exact(k.key)
	}
	if in.Reverse = reverse; after != nil {
		in.After = &urlindex.Position{Key: after.Key, Time: after.Time, Seq: after.Seq, Offset: after.Offset}
	}
	return in
}

// siteKeys are all keys of the URLs of a host and of its namesakes.
func siteKeys(host string) keyRange {
	scheme := "http"
	if strings.HasSuffix(host, ":80") { // a port of https that is http's own
		scheme = "https"
	}
	site, _, _ := strings.Cut(archive.SURT(fmt.Sprintf("%s://%s/", scheme, host)), ")")
	return keyRange{key: site + ")"}
}

// sourceQueue is a heap of sources, the one whose record comes next first.
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
	return q.heads[i].found.at.compare(q.heads[j].found.at) < 0
}
func (q *sourceQueue) Swap(i, j int) { q.heads[i], q.heads[j] = q.heads[j], q.heads[i] }
func (q *sourceQueue) Push(x any)    { q.heads = append(q.heads, x.(head)) }
func (q *sourceQueue) Pop() any {
	last := q.heads[len(q.heads)-1]
	q.heads = q.heads[:len(q.heads)-1]
	return last
}
