package catalog

import (
	"bytes"
	"context"
	"fmt"
	"sort"

	lru "github.com/hashicorp/golang-lru/v2"

	"sheaf/archive/store"
)

// library reads runs: the store that they lie in, and the blocks last used.
type library struct {
	store store.Store
	codec *codec
	cache *lru.Cache[blockID, []byte]
}

type blockID struct {
	run   string
	block int
}

// run is one immutable sorted run, of which the block index is in memory.
type run struct {
	runRef
	lib    *library
	blocks []block
}

// open reads a run's block index.
func (l *library) open(ctx context.Context, ref runRef) (*run, error) {
	tail, err := store.ReadAll(ctx, l.store, ref.Name, ref.Index, ref.Size-ref.Index)
	if err != nil {
		return nil, err
	}
	blocks, err := l.parseTail(ref, tail)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", ref.Name, err)
	}
	return &run{runRef: ref, lib: l, blocks: blocks}, nil
}

func (l *library) parseTail(ref runRef, tail []byte) ([]block, error) {
	if len(tail) < footerSize {
		return nil, fmt.Errorf("%d bytes from the index on: %w", len(tail), ErrCorrupt)
	}
	cut := len(tail) - footerSize
	end, err := decodeFooter(l.codec, tail[cut:])
	if err != nil {
		return nil, err
	}
	if end.index != ref.Index || end.rows != ref.Rows {
		return nil, fmt.Errorf("footer says %d rows, index at %d; the version says %d rows, index at %d: %w",
			end.rows, end.index, ref.Rows, ref.Index, ErrCorrupt)
	}
	frame, err := unskip(frameIndex, tail[:cut])
	if err != nil {
		return nil, fmt.Errorf("block index: %w", err)
	}
	text, err := l.codec.inflate(frame, end.indexCRC)
	if err != nil {
		return nil, fmt.Errorf("block index: %w", err)
	}
	return parseBlocks(string(text), ref.Index)
}

// load gives the rows of the i-th block, and keeps them where that is wanted. They must not be changed.
func (r *run) load(ctx context.Context, i int, keep bool) ([]byte, error) {
	id := blockID{r.Name, i}
	if data, ok := r.lib.cache.Get(id); ok {
		return data, nil
	}
	b := r.blocks[i]
	frame, err := store.ReadAll(ctx, r.lib.store, r.Name, b.offset, int64(b.length))
	if err != nil {
		return nil, err
	}
	data, err := r.lib.codec.inflate(frame, b.crc)
	if err != nil {
		return nil, fmt.Errorf("run %s, block at %d: %w", r.Name, b.offset, err)
	}
	if len(data) == 0 || data[len(data)-1] != '\n' {
		return nil, fmt.Errorf("run %s, block at %d: does not end with a row: %w", r.Name, b.offset, ErrCorrupt)
	}
	if keep {
		r.lib.cache.Add(id, data)
	}
	return data, nil
}

// cursor walks the rows of one run. It is good for one goroutine.
type cursor struct {
	run   *run
	block int    // the block that rest is of
	at    []byte // the row it stands on, nil behind the last
	rest  []byte // the rows after it in the block

	passing bool // it goes through everything once: its blocks are not kept, nor others dropped for them
}

func (r *run) cursor() *cursor { return &cursor{run: r, block: len(r.blocks)} }

func (c *cursor) row() []byte { return c.at }

// next steps to the next row.
func (c *cursor) next(ctx context.Context) error {
	if len(c.rest) > 0 {
		c.step()
		return nil
	}
	return c.enter(ctx, c.block+1)
}

// step takes the next row of the block, which has one.
func (c *cursor) step() {
	end := bytes.IndexByte(c.rest, '\n')
	c.at, c.rest = c.rest[:end], c.rest[end+1:]
}

// enter stands on the first row of the i-th block.
func (c *cursor) enter(ctx context.Context, i int) error {
	c.at, c.rest = nil, nil
	if c.block = min(i, len(c.run.blocks)); i >= len(c.run.blocks) {
		return nil
	}
	data, err := c.run.load(ctx, i, !c.passing)
	if err != nil {
		return err
	}
	c.rest = data
	c.step()
	return nil
}

// seek stands on the first row at or behind key. Going on from where it stands
// within one block costs no look-up.
func (c *cursor) seek(ctx context.Context, key string) error {
	blocks := c.run.blocks
	i := max(0, sort.Search(len(blocks), func(i int) bool { return blocks[i].first > key })-1)
	ahead := c.at != nil && i == c.block && string(c.at) <= key
	if !ahead {
		if err := c.enter(ctx, i); err != nil {
			return err
		}
	}
	for c.at != nil && string(c.at) < key {
		if err := c.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// advance goes on to the first row at or behind key, which lies ahead of all
// rows that were passed: where it is near, nothing is searched.
func (c *cursor) advance(ctx context.Context, key string) error {
	if c.at == nil || string(c.at) >= key {
		return nil
	}
	if next := c.block + 1; next < len(c.run.blocks) && c.run.blocks[next].first <= key {
		return c.seek(ctx, key)
	}
	for c.at != nil && string(c.at) < key {
		if err := c.next(ctx); err != nil {
			return err
		}
	}
	return nil
}
