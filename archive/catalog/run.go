package catalog

import (
	"context"
	"fmt"
	"sort"

	lru "github.com/hashicorp/golang-lru/v2"

	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
)

// library opens runs. It holds their store and the cache of blocks.
type library struct {
	store store.Store
	codec *codec
	cache *lru.Cache[blockID, *sortedrun.Block]
}

type blockID struct {
	run   string
	block int64
}

// run is an open run: its block index is in memory. It may be used concurrently.
type run struct {
	runRef
	lib    *library
	blocks []block
}

// open opens a run: it reads the block index, and compares it with ref.
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

// Len returns the number of blocks.
func (r *run) Len() int64 { return int64(len(r.blocks)) }

// Find returns the number of the last block that begins before bound, or 0.
func (r *run) Find(_ context.Context, bound string) (int64, error) {
	i := sort.Search(len(r.blocks), func(i int) bool { return r.blocks[i].first >= bound })
	return int64(max(i-1, 0)), nil
}

// Block returns a block from the cache, or reads and caches it.
func (r *run) Block(ctx context.Context, n int64) (*sortedrun.Block, error) {
	return r.read(ctx, n, true)
}

// read reads a block, and caches it if keep is true.
func (r *run) read(ctx context.Context, n int64, keep bool) (*sortedrun.Block, error) {
	id := blockID{r.Name, n}
	if b, ok := r.lib.cache.Get(id); ok {
		return b, nil
	}
	at := r.blocks[n]
	frame, err := store.ReadAll(ctx, r.lib.store, r.Name, at.offset, int64(at.length))
	if err != nil {
		return nil, err
	}
	data, err := r.lib.codec.inflate(frame, at.crc)
	if err != nil {
		return nil, fmt.Errorf("run %s, block at %d: %w", r.Name, at.offset, err)
	}
	b, err := sortedrun.NewBlock(data, int(at.rows))
	if err != nil {
		return nil, fmt.Errorf("run %s, block at %d: %w: %w", r.Name, at.offset, err, ErrCorrupt)
	}
	if keep {
		r.lib.cache.Add(id, b)
	}
	return b, nil
}

// passing is a run that is read once from beginning to end. Its blocks are not cached.
type passing struct{ *run }

func (p passing) Block(ctx context.Context, n int64) (*sortedrun.Block, error) {
	return p.read(ctx, n, false)
}
