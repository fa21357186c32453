package urlindex

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sort"

	"github.com/klauspost/compress/gzip"

	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
	"sheaf/internal/cache"
	"sheaf/internal/wire"
)

// run is a live run whose list of pages is in memory. It may be used concurrently.
type run struct {
	runRef
	store store.Store
	cache *readCache
	pages []page // of cluster.idx
}

// openRun reads the list of a run's pages.
func openRun(ctx context.Context, st store.Store, c *readCache, ref runRef) (*run, error) {
	r := &run{runRef: ref, store: st, cache: c}
	data, err := store.ReadAll(ctx, st, ref.Name+"/"+filePages, 0, ref.Pages.Size)
	if err != nil {
		return nil, damaged(err)
	}
	if got := wire.Digest(data); got != ref.Pages.SHA256 {
		return nil, fmt.Errorf("%s/%s: SHA-256 is %s, the state says %s: %w", ref.Name, filePages, got, ref.Pages.SHA256, ErrCorrupt)
	}
	if r.pages, err = parsePages(string(data), &r.runRef); err != nil {
		return nil, fmt.Errorf("%s/%s: %w", ref.Name, filePages, err)
	}
	return r, nil
}

// recall returns a part from the cache, or calls read and caches its result.
func recall[T any](r *run, p part, read func() (T, int64, error)) (T, error) {
	p.run = r.Name
	if v, ok := r.cache.Get(p); ok {
		return v.(T), nil
	}
	v, cost, err := read()
	if err == nil {
		r.cache.Add(p, v, cost+256)
	}
	return v, err
}

// blocks returns the blocks of page i of cluster.idx, from 0.
func (r *run) blocks(ctx context.Context, i int) ([]block, error) {
	return recall(r, part{page: true, number: int64(i)}, func() ([]block, int64, error) {
		p := r.pages[i]
		data, err := store.ReadAll(ctx, r.store, r.Name+"/"+fileBlocks, p.offset, p.length)
		if err != nil {
			return nil, 0, err
		}
		blocks, err := parseBlocks(data, p, &r.runRef)
		if err != nil {
			return nil, 0, fmt.Errorf("%s/%s, %d bytes at %d: %w", r.Name, fileBlocks, p.length, p.offset, err)
		}
		return blocks, int64(len(blocks)*48) + p.length, nil
	})
}

// block returns the entry of block n, from 0.
func (r *run) block(ctx context.Context, n int64) (block, error) {
	blocks, err := r.blocks(ctx, int(n/pageBlocks))
	if err != nil {
		return block{}, err
	}
	return blocks[n%pageBlocks], nil
}

// Len returns the number of blocks.
func (r *run) Len() int64 { return r.runRef.Blocks }

// Block returns the rows of block n, from 0.
func (r *run) Block(ctx context.Context, n int64) (*sortedrun.Block, error) {
	return recall(r, part{number: n}, func() (*sortedrun.Block, int64, error) {
		b, err := r.block(ctx, n)
		if err != nil {
			return nil, 0, err
		}
		key := r.Name + "/" + fileRows
		data, err := store.ReadAll(ctx, r.store, key, b.offset, b.length)
		if err != nil {
			return nil, 0, err
		}
		rows, err := parseRows(data, b.head)
		if err != nil {
			return nil, 0, fmt.Errorf("%s, block %d, %d bytes at %d: %w", key, b.number, b.length, b.offset, err)
		}
		return rows, rows.Size(), nil
	})
}

// parseRows inflates a block and checks its rows' form and order. gzip checks the CRC-32 and the
// length.
func parseRows(member []byte, first string) (*sortedrun.Block, error) {
	src := bytes.NewReader(member)
	z, err := gzip.NewReader(src)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrCorrupt)
	}
	z.Multistream(false)
	data, err := io.ReadAll(io.LimitReader(z, maxDecoded+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", err, ErrCorrupt)
	case len(data) > maxDecoded:
		return nil, fmt.Errorf("more than %d bytes: %w", maxDecoded, ErrCorrupt)
	case src.Len() > 0:
		return nil, fmt.Errorf("%d bytes behind the gzip member: %w", src.Len(), ErrCorrupt)
	}
	rows, err := sortedrun.NewBlock(data, blockRows)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrCorrupt)
	}
	var last []byte
	for i := range rows.Len() {
		line := rows.Row(i)
		if err := checkLine(line); err != nil {
			return nil, err
		}
		h := head(line)
		if last == nil && string(h) != first || bytes.Compare(h, last) < 0 {
			return nil, fmt.Errorf("line of %.100q is out of its place: %w", h, ErrCorrupt)
		}
		last = h
	}
	return rows, nil
}

// Find returns the number of the last block whose first line's head is before bound, or 0. Lines of
// the same head may be in several blocks.
func (r *run) Find(ctx context.Context, bound string) (int64, error) {
	// Find the last page, then the last block, that begins before the bound.
	i := sort.Search(len(r.pages), func(i int) bool { return r.pages[i].head >= bound }) - 1
	if i < 0 {
		return 0, nil
	}
	blocks, err := r.blocks(ctx, i)
	if err != nil {
		return 0, err
	}
	n := sort.Search(len(blocks), func(n int) bool { return blocks[n].head >= bound }) - 1
	return int64(i*pageBlocks + max(n, 0)), nil
}

// walk is the lines of one run within a range, in the range's direction. It implements
// sortedrun.Rows.
type walk struct {
	*sortedrun.Cursor
	in   Range
	done bool // the end of the range was reached
}

// begin returns a walk on the first line of the range.
func (r *run) begin(ctx context.Context, in Range) (*walk, error) {
	w := &walk{Cursor: sortedrun.NewCursor(r), in: in}
	if err := w.start(ctx); err != nil {
		return nil, err
	}
	w.bound()
	return w, w.skip(ctx)
}

// start moves to the first line within the range's bounds. The line may be at or before
// Range.After; skip then goes on.
func (w *walk) start(ctx context.Context) error {
	bound := w.in.From
	if w.in.Reverse {
		bound = w.in.To
	}
	if w.in.After != nil {
		head := string(w.in.After.head())
		if !w.in.Reverse {
			bound = max(bound, head)
		} else if head += "!"; bound == "" || head < bound { // this bound is behind all lines of the same head
			bound = head
		}
	}
	switch {
	case !w.in.Reverse:
		return w.Seek(ctx, bound)
	case bound == "":
		return w.SeekEnd(ctx)
	}
	return w.SeekBefore(ctx, bound)
}

// Row returns the current line, or nil at the end of the range.
func (w *walk) Row() []byte {
	if w.done {
		return nil
	}
	return w.Cursor.Row()
}

// Next moves to the next line of the range.
func (w *walk) Next(ctx context.Context) error {
	step := w.Cursor.Next
	if w.in.Reverse {
		step = w.Previous
	}
	if err := step(ctx); err != nil {
		return err
	}
	w.bound()
	return nil
}

// bound ends the walk at the end of the range.
func (w *walk) bound() {
	row := w.Cursor.Row()
	w.done = row == nil || !w.in.Reverse && w.in.To != "" && string(row) >= w.in.To || w.in.Reverse && string(row) < w.in.From
}

// skip skips the lines up to the position after which the range begins.
func (w *walk) skip(ctx context.Context) error {
	if w.in.After == nil {
		return nil
	}
	head := w.in.After.head()
	for row := w.Row(); row != nil && bytes.HasPrefix(row, head); row = w.Row() {
		r, err := parseRow(row)
		if err != nil {
			return err
		}
		if d := r.Position().Compare(*w.in.After); d > 0 && !w.in.Reverse || d < 0 && w.in.Reverse {
			return nil
		}
		if err := w.Next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// part names a page or a block of a run.
type part struct {
	run    string
	page   bool
	number int64
}

// readCache keeps parts of runs. All views of one Reader share it.
type readCache = cache.Cache[part]

func newCache(limit int64) *readCache { return cache.New[part](limit) }
