package archive

import (
	"bufio"
	"context"
	"io"
	"sync"
)

// maxGap is the longest gap between cells, in bytes, that is read and dropped, not jumped over.
const maxGap = 64 << 10

// gatherReader reads the stored bytes of runs of cells, in order, with one open range for each run.
type gatherReader struct {
	ctx  context.Context
	src  Source
	part int
	run  span // the stored bytes of the cells
	rc   io.ReadCloser
	buf  *bufio.Reader
	at   int64 // offset of buf's next byte
}

// holds reports whether the run has the cell, at or after the current offset.
func (g *gatherReader) holds(ref cellRef) bool {
	return g.src != nil && g.part == ref.part && ref.cell.Offset >= g.at && ref.cell.Offset+ref.cell.Len() <= g.run.end()
}

// begin begins a run. Its range is opened when the first byte is read.
func (g *gatherReader) begin(src Source, part int, run span) {
	g.close()
	g.src, g.part, g.run, g.at = src, part, run, run.off
}

// gatherBuffers keeps the buffers of closed readers, because a buffer is larger than most pages.
var gatherBuffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 64<<10) }}

// close must not run while the reader is read: another reader may get its buffer at once.
func (g *gatherReader) close() error {
	if g.rc == nil {
		return nil
	}
	rc := g.rc
	g.rc = nil
	g.buf.Reset(nil)
	gatherBuffers.Put(g.buf)
	g.buf = nil
	return rc.Close()
}

// read reads at least one byte at off.
func (g *gatherReader) read(p []byte, off int64) (int, error) {
	if err := g.ctx.Err(); err != nil {
		return 0, err
	}
	if err := g.seek(off); err != nil {
		return 0, err
	}
	n, err := g.buf.Read(p)
	g.at += int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF // the source is shorter than its index says
	}
	return n, err
}

func (g *gatherReader) seek(off int64) error {
	if gap := off - g.at; g.rc != nil && gap >= 0 && gap <= maxGap {
		n, err := g.buf.Discard(int(gap))
		g.at += int64(n)
		return err
	}
	g.close()
	rc, err := g.src.OpenRange(g.ctx, off, g.run.end()-off)
	if err != nil {
		return err
	}
	g.rc, g.at, g.buf = rc, off, gatherBuffers.Get().(*bufio.Reader)
	g.buf.Reset(rc)
	return nil
}

// all reads a short span into memory.
func (g *gatherReader) all(s span) ([]byte, error) {
	b := make([]byte, s.n)
	for n := 0; n < len(b); {
		k, err := g.read(b[n:], s.off+int64(n))
		if n += k; err != nil && n < len(b) {
			return nil, err
		}
	}
	return b, nil
}
