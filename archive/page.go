package archive

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
)

// PageView is one page's body as a gzip file, for Content-Encoding: gzip. It has the segment's
// blocks.
type PageView struct {
	frame
	src     Source
	off     int64 // of the blocks
	trailer []byte
}

// PageBodyOf returns the body of a Page or a Partial. Other kinds have none, and give an error.
func PageBodyOf(src Source, c *Cell) (*PageView, error) {
	if !c.Kind.HasFile() {
		return nil, fmt.Errorf("%.100q is a %v, which has no stored body", c.URL, c.Kind)
	}
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("cell of %.100q: %w", c.URL, err)
	}
	body := c.bodyBlocks()
	end := memberEnd(c.BodyCRC, c.BodyLen)
	return &PageView{frame{[]byte(gzipPlainStart), body.n, bytes.NewReader(end), int64(len(end))}, src, body.off, end}, nil
}

// Frame returns the bytes of the gzip file before and after the stored blocks.
func (p *PageView) Frame() (start, end []byte) { return p.start, p.trailer }

// OpenRange returns n bytes of the gzip file from off.
func (p *PageView) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	return p.open(off, n, func(off, n int64) (io.ReadCloser, error) { return p.src.OpenRange(ctx, p.off+off, n) })
}

// Open returns the decoded body. The caller closes it.
func (p *PageView) Open(ctx context.Context) (io.ReadCloser, error) {
	stored, err := p.OpenRange(ctx, 0, p.Size())
	if err != nil {
		return nil, err
	}
	zr, err := gzip.NewReader(stored)
	if err != nil {
		stored.Close()
		return nil, err
	}
	return readCloser{zr, stored}, nil
}

// OpenRecord opens the record of a cell as a WARC view has it: one gzip member of WARCLength bytes.
func OpenRecord(ctx context.Context, src Source, c *Cell) (io.ReadCloser, error) {
	// The record's end is stored before it.
	record, end := c.record(), make([]byte, wsSize+fieldHead)
	stored, err := src.OpenRange(ctx, c.recordTail().off, int64(len(end))+record.n)
	if err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(stored, end); err != nil {
		stored.Close()
		return nil, err
	}
	return readCloser{io.MultiReader(stored, bytes.NewReader(end[:wsSize])), stored}, nil
}

// frame is the layout of a file: stored bytes between given ones.
type frame struct {
	start  []byte
	stored int64 // number of stored bytes
	end    io.ReaderAt
	after  int64 // length of end
}

// Size returns the length of the file, in bytes.
func (f *frame) Size() int64 { return int64(len(f.start)) + f.stored + f.after }

// divide splits a range of the file: head is its part of start, [from, to) its range of stored
// bytes, and tail its part of end.
func (f *frame) divide(off, n int64) (head []byte, from, to int64, tail *io.SectionReader, err error) {
	if err := checkRange(off, n, f.Size()); err != nil {
		return nil, 0, 0, nil, err
	}
	begin := int64(len(f.start))
	end := begin + f.stored
	from, to = min(max(off, begin), end)-begin, min(max(off+n, begin), end)-begin
	first := max(off-end, 0)
	return f.start[min(off, begin):min(off+n, begin)], from, to, io.NewSectionReader(f.end, first, max(off+n-end, 0)-first), nil
}

// open returns n bytes of the file from off. It calls stored to open the range's stored bytes,
// unless the range has none.
func (f *frame) open(off, n int64, stored func(off, n int64) (io.ReadCloser, error)) (io.ReadCloser, error) {
	head, from, to, tail, err := f.divide(off, n)
	if err != nil {
		return nil, err
	}
	body := io.NopCloser(bytes.NewReader(nil))
	if from < to {
		if body, err = stored(from, to-from); err != nil {
			return nil, err
		}
	}
	return readCloser{io.MultiReader(bytes.NewReader(head), body, tail), body}, nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

// checkRange returns an error if n bytes at off are not within a file of the given size.
func checkRange(off, n, size int64) error {
	if off < 0 || n < 0 || off > size || n > size-off {
		return fmt.Errorf("range of %d bytes at %d is not within a file of %d", n, off, size)
	}
	return nil
}
