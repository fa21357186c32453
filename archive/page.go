package archive

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
)

// PageView is one page's body as a gzip file, for Content-Encoding: gzip. Its
// blocks are the stored ones.
type PageView struct {
	src   Source
	start []byte
	body  span
	end   []byte
}

// PageBody gives the body of a page in the part.
func PageBody(part Part, cell int) (*PageView, error) {
	if cell < 0 || cell >= len(part.Index.Cells) {
		return nil, fmt.Errorf("cell %d of %d in segment %s", cell, len(part.Index.Cells), part.Index.Segment)
	}
	return PageBodyOf(part.Source, &part.Index.Cells[cell])
}

// PageBodyOf is PageBody where only the page's own index line was read.
func PageBodyOf(src Source, c *Cell) (*PageView, error) {
	if c.Kind != Page {
		return nil, fmt.Errorf("%.100q is a %v, which has no stored body", c.URL, c.Kind)
	}
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("cell of %.100q: %w", c.URL, err)
	}
	return &PageView{src: src, start: []byte(gzipPlainStart), body: c.bodyBlocks(), end: appendTrailer([]byte{3, 0}, c.BodyCRC, c.BodyLen)}, nil
}

// Size is the length of the gzip file.
func (p *PageView) Size() int64 { return int64(len(p.start)+len(p.end)) + p.body.n }

// Frame returns what stands in the gzip file before and behind the stored blocks.
func (p *PageView) Frame() (start, end []byte) { return p.start, p.end }

// OpenRange gives n bytes of the gzip file from off on.
func (p *PageView) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if off < 0 || n < 0 || off > p.Size() || n > p.Size()-off {
		return nil, fmt.Errorf("range of %d bytes at %d is not within a body of %d", n, off, p.Size())
	}
	start, end := int64(len(p.start)), int64(len(p.start))+p.body.n
	from, to := max(off, start), min(off+n, end)
	var stored io.ReadCloser = io.NopCloser(bytes.NewReader(nil))
	if from < to {
		var err error
		if stored, err = p.src.OpenRange(ctx, p.body.off+from-start, to-from); err != nil {
			return nil, err
		}
	}
	head := p.start[min(off, start):min(off+n, start)]
	tail := p.end[max(off-end, 0):max(off+n-end, 0)]
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), stored, bytes.NewReader(tail)), stored}, nil
}

// Open gives the decoded body.
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
	return struct {
		io.Reader
		io.Closer
	}{zr, stored}, nil
}
