package urlindex

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
)

// indexMemory limits the segments' indexes that are read at once, in stored bytes. Decoded indexes
// take about ten times as much memory.
const indexMemory = 4 << 20

// maxHoles limits the entries whose segment's index could not be read. More holes mean that the
// store has a problem.
const maxHoles = 1000

// newRows collects the rows of entries of the catalog that the index does not have yet.
type newRows struct {
	job    *job
	memory *semaphore.Weighted // of segments' indexes

	mu     sync.Mutex // guards the fields below
	sorter *sortedrun.Sorter
	holes  []int64
}

// collect reads the segments' indexes of new entries. It reads entries of one host and edition one
// after another. It returns the last sequence number that it has covered, and the erasures up to
// that number.
func (c *newRows) collect(ctx context.Context) (through int64, erased []catalog.Tombstone, err error) {
	load, loadCtx := errgroup.WithContext(ctx)
	load.SetLimit(parallel)
	dispatch := func(entries []catalog.SegmentEntry, first int64) {
		if len(entries) > 0 {
			load.Go(func() error { return c.read(loadCtx, entries, first) })
		}
	}
	through, erased, err = c.walk(loadCtx, dispatch)
	if waited := load.Wait(); waited != nil {
		return 0, nil, waited
	}
	if err != nil {
		return 0, nil, err
	}
	if slices.Sort(c.holes); len(c.holes) > maxHoles {
		return 0, nil, fmt.Errorf("the indexes of %d segments cannot be read, the first of entry %d; check the store", len(c.holes), c.holes[0])
	}
	return through, erased, nil
}

// walk goes through the changes of the catalog and dispatches entries.
func (c *newRows) walk(ctx context.Context, dispatch func(entries []catalog.SegmentEntry, first int64)) (through int64, erased []catalog.Tombstone, err error) {
	if c.job.prev.Through < c.job.snap.Last() {
		if err := c.retry(ctx, dispatch); err != nil {
			return 0, nil, err
		}
	}
	var group []catalog.SegmentEntry
	records := int64(0)
	for change, err := range c.job.snap.Since(ctx, min(c.job.prev.Through, c.job.prev.Swept)) {
		if err != nil {
			return 0, nil, err
		}
		if t := change.Tombstone; t != nil {
			if change.Seq > c.job.prev.Swept {
				erased = append(erased, *t)
			}
			continue
		}
		e := *change.Entry
		if e.Seq <= c.job.prev.Through {
			continue
		}
		if len(group) > 0 && (group[0].Host != e.Host || group[0].Edition != e.Edition) {
			dispatch(group, archive.WARCStart())
			if records >= c.job.builder.opt.RunRows {
				return group[len(group)-1].Seq, erased, ctx.Err()
			}
			group = nil
		}
		group = append(group, e)
		records += e.Records
	}
	dispatch(group, archive.WARCStart())
	return c.job.snap.Last(), erased, ctx.Err()
}

// retry dispatches the entries whose index could not be read before, if they still exist.
func (c *newRows) retry(ctx context.Context, dispatch func(entries []catalog.SegmentEntry, first int64)) error {
	for _, seq := range c.job.prev.Holes {
		for change, err := range c.job.snap.Since(ctx, seq-1) {
			if err != nil {
				return err
			}
			if e := change.Entry; e != nil && e.Seq == seq {
				first := archive.WARCStart()
				beside, err := c.job.snap.HostEdition(ctx, e.Host, e.Edition)
				if err != nil {
					return err
				}
				for _, o := range beside {
					if o.Seq < seq {
						first += recordBytes(o)
					}
				}
				dispatch([]catalog.SegmentEntry{*e}, first)
			}
			break
		}
	}
	return nil
}

// recordBytes returns the size of an entry's records in the WARC view, or 0 if the entry does not
// say.
func recordBytes(e catalog.SegmentEntry) int64 {
	if v, ok := e.Views[string(archive.WARC)]; ok {
		return v.Size - archive.WARCStart()
	}
	return 0
}

// read adds the rows of some entries of one host and edition. first is the offset of their first
// record in the edition's WARC file.
func (c *newRows) read(ctx context.Context, entries []catalog.SegmentEntry, first int64) error {
	for _, e := range entries {
		n, err := c.readEntry(ctx, e, first)
		switch {
		case err == nil:
			first += n
		case !unreadable(err):
			return fmt.Errorf("index of the segment of %s in %s, entry %d: %w", e.Host, e.Object, e.Seq, err)
		default:
			c.job.builder.opt.Log.WarnContext(ctx, "URL index: a segment's index cannot be read; the entry is left to readers", "host", e.Host, "object", e.Object, "entry", e.Seq, "err", err)
			c.mu.Lock()
			c.holes = append(c.holes, e.Seq)
			c.mu.Unlock()
			first += recordBytes(e)
		}
	}
	return nil
}

// unreadable reports whether an error comes from bad or missing bytes of the segment, not from the
// store.
func unreadable(err error) bool {
	if format, ok := errors.AsType[*archive.FormatError](err); ok && (format.Err == nil || errors.Is(format.Err, io.ErrUnexpectedEOF)) {
		return true
	}
	return errors.Is(err, store.ErrNotExist) || errors.Is(err, store.ErrRange) || errors.Is(err, errKey)
}

// readEntry adds the rows of an entry, and returns the size of its records in the WARC view, in
// bytes.
func (c *newRows) readEntry(ctx context.Context, e catalog.SegmentEntry, first int64) (int64, error) {
	weight := min(max(e.IndexLength, 1), indexMemory)
	if err := c.memory.Acquire(ctx, weight); err != nil {
		return 0, err
	}
	defer c.memory.Release(weight)
	index, err := c.job.builder.opt.Segment(ctx, e)
	if err != nil {
		return 0, err
	}
	rows, n, err := rowsOf(index, e, first)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, some := range rows {
		if err := c.sorter.Add(some); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// errKey says that a row cannot have this URL key.
var errKey = errors.New("is no URL key")

// rowsOf returns an entry's rows, in pieces of whole lines, and the size of its records.
func rowsOf(index *archive.Index, e catalog.SegmentEntry, first int64) (pieces [][]byte, n int64, err error) {
	place := naming.HostPath(e.Host) + "/" + e.Edition + warcSuffix
	var piece []byte
	for i := range index.Cells {
		r := Row{Cell: index.Cells[i], Seq: e.Seq, Before: n, Filename: place, FileOffset: first + n}
		for _, b := range []byte(r.URLKey) {
			if b <= ' ' || b > '~' {
				return nil, 0, fmt.Errorf("%.100q %w", r.URLKey, errKey)
			}
		}
		piece = appendRow(piece, &r)
		n += r.WARCLength()
		if len(piece) > 1<<18 {
			pieces, piece = append(pieces, piece), make([]byte, 0, len(piece)+1<<12)
		}
	}
	return append(pieces, piece), n, nil
}

// readIndex reads the index of an entry's segment. If the entry does not give the index's place,
// the segment's end member does.
func readIndex(ctx context.Context, st store.Store, e catalog.SegmentEntry) (*archive.Index, error) {
	src := store.Source(st, e.Object, e.Offset)
	if e.IndexLength > 0 {
		return archive.ReadIndexAt(ctx, src, e.IndexOffset, e.IndexLength)
	}
	return archive.ReadIndex(ctx, src, e.Length)
}
