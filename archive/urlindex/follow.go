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
	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
)

// follow adds what is new in the catalog. New lines, up to a limit, become a run; runs with erased
// records are rewritten. Each of the two is a state of its own.
func (j *job) follow(ctx context.Context) (err error) {
	c := &collected{job: j, sorter: sortedrun.NewSorter(j.opt.TempDir, j.opt.SortMemory, compareLines), memory: semaphore.NewWeighted(indexMemory)}
	defer func() { err = errors.Join(err, c.sorter.Close()) }()
	through, erased, err := c.collect(ctx)
	if err != nil {
		return err
	}
	at := j.prev
	if through > at.Through {
		if at, err = c.build(ctx, through, len(erased) == 0); err != nil {
			return err
		}
	}
	if at.Swept == through {
		return nil
	}
	return j.sweep(ctx, at, through, erased)
}

// indexMemory limits the segments' indexes that are read at once, in stored bytes. Decoded they
// take about ten times as much.
const indexMemory = 4 << 20

// maxHoles limits the lines that an index may lack. More mean that the store has a problem.
const maxHoles = 1000

// collected is the rows of new lines.
type collected struct {
	*job
	memory *semaphore.Weighted

	mu     sync.Mutex // guards what follows
	sorter *sortedrun.Sorter
	holes  []int64
}

// collect reads the indexes of new lines. Lines of one host and edition are read one after another.
// It returns the last sequence number that it has covered, and the erasures up to there.
func (c *collected) collect(ctx context.Context) (through int64, erased []catalog.Tombstone, err error) {
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
func (c *collected) walk(ctx context.Context, dispatch func(lines []catalog.SegmentEntry, first int64)) (through int64, erased []catalog.Tombstone, err error) {
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
			if records >= c.opt.RunRows {
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
func (c *collected) retry(ctx context.Context, dispatch func(lines []catalog.SegmentEntry, first int64)) error {
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
func (c *collected) read(ctx context.Context, lines []catalog.SegmentEntry, first int64) error {
	for _, l := range lines {
		n, err := c.readLine(ctx, l, first)
		switch {
		case err == nil:
			first += n
		case !unreadable(err):
			return fmt.Errorf("index of the segment of %s in %s, line %d: %w", l.Host, l.Object, l.Seq, err)
		default:
			c.opt.Log.Warn("URL index: a segment's index cannot be read; the line is left to readers", "host", l.Host, "object", l.Object, "line", l.Seq, "err", err)
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
func (c *collected) readLine(ctx context.Context, l catalog.SegmentEntry, first int64) (int64, error) {
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

// build stores the rows as a run and appends the state that names it. swept says that nothing was
// erased, so that no sweep needs to follow.
func (c *collected) build(ctx context.Context, through int64, swept bool) (*entry, error) {
	next := c.prev.state
	next.Kind, next.Through, next.Holes = kindBuild, through, c.holes
	if swept {
		next.Swept = through
	}
	var err error
	next.Version = c.snap.Version()
	if next.Record, err = catalog.RecordDigest(ctx, c.store, next.Version); err != nil {
		return nil, err
	}
	sorted, err := c.sorter.Rows(ctx)
	if err != nil {
		return nil, err
	}
	ref, err := c.makeRun(ctx, kindBuild, 0, sorted)
	if err != nil {
		return nil, err
	}
	if ref.Rows > 0 {
		next.Runs = append(slices.Clone(next.Runs), ref)
	}
	return c.append(ctx, c.prev, next)
}

// sweep rewrites the runs that hold rows of erased records, and records that this is done up to
// sequence number through.
func (j *job) sweep(ctx context.Context, at *entry, through int64, erased []catalog.Tombstone) error {
	next := at.state
	next.Kind, next.Swept = kindSweep, through
	next.Runs = nil
	for _, r := range at.Runs {
		holds, err := j.holds(ctx, r, erased)
		if err != nil {
			return err
		}
		if holds {
			if r, err = j.rewrite(ctx, kindSweep, r.Level, r); err != nil {
				return err
			}
		}
		if r.Rows > 0 {
			next.Runs = append(next.Runs, r)
		}
	}
	_, err := j.append(ctx, at, next)
	return err
}

// holds reports whether a run has rows of erased records.
func (j *job) holds(ctx context.Context, ref runRef, erased []catalog.Tombstone) (bool, error) {
	if len(erased) == 0 {
		return false, nil
	}
	r, err := openRun(ctx, j.store, newCache(defaultCache/8), ref)
	if err != nil {
		return false, err
	}
	looked := make(map[string]bool)
	for _, t := range erased {
		key := keyOfHost(t.Host)
		if looked[key] {
			continue
		}
		looked[key] = true
		c, err := r.begin(ctx, Prefix(key))
		for ; err == nil && c.Row() != nil; err = c.Next(ctx) {
			gone, err := j.gone.has(c.Row())
			if gone || err != nil {
				return gone, err
			}
		}
		if err != nil {
			return false, damaged(err)
		}
	}
	return false, nil
}
