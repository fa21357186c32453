package urlindex

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sort"

	"github.com/klauspost/compress/gzip"

	"sheaf/archive/store"
)

// run is a live run whose list of pages is in memory. It may be used concurrently.
type run struct {
	runRef
	store store.Store
	cache *cache // nil: no cache
	pages []page
}

// openRun reads the list of a run's pages.
func openRun(ctx context.Context, st store.Store, c *cache, ref runRef) (*run, error) {
	r := &run{runRef: ref, store: st, cache: c}
	data, err := store.ReadAll(ctx, st, ref.Name+"/"+filePages, 0, ref.Pages.Size)
	if err != nil {
		return nil, damaged(err)
	}
	if got := digest(data); got != ref.Pages.SHA256 {
		return nil, fmt.Errorf("%s/%s: SHA-256 is %s, the state says %s: %w", ref.Name, filePages, got, ref.Pages.SHA256, ErrCorrupt)
	}
	if r.pages, err = parsePages(string(data), &r.runRef); err != nil {
		return nil, fmt.Errorf("%s/%s: %w", ref.Name, filePages, err)
	}
	return r, nil
}

// recall returns a part from the cache, or reads and caches it.
func recall[T any](r *run, p part, read func() (T, int64, error)) (T, error) {
	p.run = r.Name
	if r.cache != nil {
		if v, ok := r.cache.Get(p); ok {
			return v.(T), nil
		}
	}
	v, cost, err := read()
	if err == nil && r.cache != nil {
		r.cache.Add(p, v, cost+256)
	}
	return v, err
}

// blocks returns the i-th page of cluster.idx, from 0.
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

// lines is the rows of one block.
type lines struct {
	data []byte
	ends []int32 // end of each row in data, including the newline
}

func (l *lines) len() int { return len(l.ends) }

// line returns row i without its newline. Callers must not change it.
func (l *lines) line(i int) []byte {
	start := int32(0)
	if i > 0 {
		start = l.ends[i-1]
	}
	return l.data[start : l.ends[i]-1]
}

// lines reads block n, from 0.
func (r *run) lines(ctx context.Context, n int64) (*lines, error) {
	return recall(r, part{number: n}, func() (*lines, int64, error) {
		b, err := r.block(ctx, n)
		if err != nil {
			return nil, 0, err
		}
		key := r.Name + "/" + fileRows
		data, err := store.ReadAll(ctx, r.store, key, b.offset, b.length)
		if err != nil {
			return nil, 0, err
		}
		l, err := parseLines(data, b.head)
		if err != nil {
			return nil, 0, fmt.Errorf("%s, block %d, %d bytes at %d: %w", key, b.number, b.length, b.offset, err)
		}
		return l, int64(len(l.data) + 4*len(l.ends)), nil
	})
}

// parseLines inflates a block and finds its lines. gzip checks the CRC-32 and the length.
func parseLines(member []byte, first string) (*lines, error) {
	src := bytes.NewReader(member)
	z, err := gzip.NewReader(src)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrCorrupt)
	}
	z.Multistream(false)
	l := new(lines)
	if l.data, err = io.ReadAll(io.LimitReader(z, maxDecoded+1)); err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrCorrupt)
	}
	switch {
	case len(l.data) > maxDecoded:
		return nil, fmt.Errorf("more than %d bytes: %w", maxDecoded, ErrCorrupt)
	case src.Len() > 0:
		return nil, fmt.Errorf("%d bytes behind the gzip member: %w", src.Len(), ErrCorrupt)
	case len(l.data) == 0 || l.data[len(l.data)-1] != '\n':
		return nil, fmt.Errorf("does not end with a line: %w", ErrCorrupt)
	}
	var last []byte
	for at := 0; at < len(l.data); {
		line := l.data[at : at+bytes.IndexByte(l.data[at:], '\n')]
		if err := checkLine(line); err != nil {
			return nil, err
		}
		h := head(line)
		if last == nil && string(h) != first || bytes.Compare(h, last) < 0 {
			return nil, fmt.Errorf("line of %.100q is out of its place: %w", h, ErrCorrupt)
		}
		last = h
		at += len(line) + 1
		l.ends = append(l.ends, int32(at))
	}
	return l, nil
}

// find returns the number, from 0, of the block that a search for bound must begin in: the last one
// that begins before bound, or the first block. Lines of the same head may be in several blocks.
func (r *run) find(ctx context.Context, bound string) (int64, error) {
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
