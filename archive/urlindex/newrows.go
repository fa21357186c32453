package urlindex

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
)

// indexMemory limits the segments' indexes that are read at once, in stored bytes. Decoded they
// take about ten times as much.
const indexMemory = 4 << 20

// maxHoles limits the lines that an index may lack. More mean that the store has a problem.
const maxHoles = 1000

// newRows collects the rows of entries of the catalog that the index does not have yet.
type newRows struct {
	snap   *catalog.Snapshot
	prev   *state
	store  store.Store
	limit  int64 // records after which no further host and edition is begun
	log    *slog.Logger
	memory *semaphore.Weighted // of segments' indexes

	mu     sync.Mutex // guards what follows
	sorter *sortedrun.Sorter
	holes  []int64
}

// collect reads the indexes of new lines. Lines of one host and edition are read one after another.
// It returns the last sequence number that it has covered, and the erasures up to there.
func (c *newRows) collect(ctx context.Context) (through int64, erased []catalog.Tombstone, err error) {
	load, loadCtx := errgroup.WithContext(ctx)
	load.SetLimit(parallel)
	dispatch := func(lines []catalog.SegmentEntry, first int64) {
		if len(lines) > 0 {
			load.Go(func() error { return c.read(loadCtx, lines, first) })
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
		return 0, nil, fmt.Errorf("the indexes of %d segments cannot be read, the first of line %d; check the store", len(c.holes), c.holes[0])
	}
	return through, erased, nil
}

// walk goes through the changes of the catalog and dispatches lines.
func (c *newRows) walk(ctx context.Context, dispatch func(lines []catalog.SegmentEntry, first int64)) (through int64, erased []catalog.Tombstone, err error) {
	if c.prev.Through < c.snap.Last() {
		if err := c.retry(ctx, dispatch); err != nil {
			return 0, nil, err
		}
	}
	var group []catalog.SegmentEntry
	records := int64(0)
	for change, err := range c.snap.Since(ctx, min(c.prev.Through, c.prev.Swept)) {
		if err != nil {
			return 0, nil, err
		}
		if t := change.Tombstone; t != nil {
			if change.Seq > c.prev.Swept {
				erased = append(erased, *t)
			}
			continue
		}
		l := *change.Entry
		if l.Seq <= c.prev.Through {
			continue
		}
		if len(group) > 0 && (group[0].Host != l.Host || group[0].Edition != l.Edition) {
			dispatch(group, archive.WARCStart())
			if records >= c.limit {
				return group[len(group)-1].Seq, erased, ctx.Err()
			}
			group = nil
		}
		group = append(group, l)
		records += l.Records
	}
	dispatch(group, archive.WARCStart())
	return c.snap.Last(), erased, ctx.Err()
}

// retry dispatches the lines whose index could not be read before, if they still exist.
func (c *newRows) retry(ctx context.Context, dispatch func(lines []catalog.SegmentEntry, first int64)) error {
	for _, seq := range c.prev.Holes {
		for change, err := range c.snap.Since(ctx, seq-1) {
			if err != nil {
				return err
			}
			if l := change.Entry; l != nil && l.Seq == seq {
				first := archive.WARCStart()
				beside, err := c.snap.HostEdition(ctx, l.Host, l.Edition)
				if err != nil {
					return err
				}
				for _, o := range beside {
					if o.Seq < seq {
						first += recordBytes(o)
					}
				}
				dispatch([]catalog.SegmentEntry{*l}, first)
			}
			break
		}
	}
	return nil
}

// recordBytes returns the size of a line's records in the WARC view, or 0 if the line does not say.
func recordBytes(l catalog.SegmentEntry) int64 {
	if v, ok := l.Views[string(archive.WARC)]; ok {
		return v.Size - archive.WARCStart()
	}
	return 0
}

// read adds the rows of some lines of one host and edition. first is the offset of the first record
// in the edition's file.
func (c *newRows) read(ctx context.Context, lines []catalog.SegmentEntry, first int64) error {
	for _, l := range lines {
		n, err := c.readLine(ctx, l, first)
		switch {
		case err == nil:
			first += n
		case !unreadable(err):
			return fmt.Errorf("index of the segment of %s in %s, line %d: %w", l.Host, l.Object, l.Seq, err)
		default:
			c.log.Warn("URL index: a segment's index cannot be read; the line is left to readers", "host", l.Host, "object", l.Object, "line", l.Seq, "err", err)
			c.mu.Lock()
			c.holes = append(c.holes, l.Seq)
			c.mu.Unlock()
			first += recordBytes(l)
		}
	}
	return nil
}

// unreadable reports whether the stored bytes are to blame for an error, and not the store.
func unreadable(err error) bool {
	var format *archive.FormatError
	if errors.As(err, &format) && (format.Err == nil || errors.Is(format.Err, io.ErrUnexpectedEOF)) {
		return true
	}
	return errors.Is(err, store.ErrNotExist) || errors.Is(err, store.ErrRange) || errors.Is(err, errKey)
}

// readLine adds the rows of a line, and returns the size of its records in the WARC view.
func (c *newRows) readLine(ctx context.Context, l catalog.SegmentEntry, first int64) (int64, error) {
	weight := min(max(l.IndexLength, 1), indexMemory)
	if err := c.memory.Acquire(ctx, weight); err != nil {
		return 0, err
	}
	defer c.memory.Release(weight)
	rows, n, err := rowsOf(ctx, c.store, l, first)
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

// rowsOf returns a line's rows, in pieces of whole lines, and the size of its records.
func rowsOf(ctx context.Context, st store.Store, l catalog.SegmentEntry, first int64) (pieces [][]byte, n int64, err error) {
	index, err := readIndex(ctx, st, l)
	if err != nil {
		return nil, 0, err
	}
	place := archive.HostPath(l.Host) + "/" + l.Edition + warcSuffix
	var piece []byte
	for i := range index.Cells {
		r := Row{Cell: index.Cells[i], Seq: l.Seq, Before: n, Filename: place, FileOffset: first + n}
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

// readIndex reads a segment's index.
func readIndex(ctx context.Context, st store.Store, l catalog.SegmentEntry) (*archive.Index, error) {
	src := store.Source(st, l.Object, l.Offset)
	if l.IndexLength > 0 {
		return archive.ReadIndexAt(ctx, src, l.IndexOffset, l.IndexLength)
	}
	return archive.ReadIndex(ctx, src, l.Length)
}
