package archive

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/flate"
)

func crcOf(b []byte) uint32 { return crc32.ChecksumIEEE(b) }

const maxStored = 1<<16 - 1 // bytes in one stored block

// storedBlock returns a block that holds up to maxStored bytes uncompressed.
func storedBlock(b []byte, final bool) []byte {
	out := make([]byte, 1, 5+len(b))
	if final {
		out[0] = 1
	}
	out = binary.LittleEndian.AppendUint16(out, uint16(len(b)))
	out = binary.LittleEndian.AppendUint16(out, ^uint16(len(b)))
	return append(out, b...)
}

// compressor makes runs of open blocks: none is final, and the last ends on a byte boundary.
type compressor struct {
	deflate *flate.Writer
	out     bytes.Buffer // the result of blocks
}

func newCompressor(level int) (*compressor, error) {
	w, err := flate.NewWriter(io.Discard, level)
	if err != nil {
		return nil, fmt.Errorf("compression level %d: %w", level, err)
	}
	return &compressor{deflate: w}, nil
}

// blocks returns the run for data in memory. It is valid until the next call.
func (c *compressor) blocks(data []byte) []byte {
	c.out.Reset()
	w := c.run(&c.out, false)
	w.Write(data) // into memory
	w.Close()
	return c.out.Bytes()
}

// tinyBody is the longest body, in bytes, for whose page headRun prefers speed to size. Nearly all
// of such a record is its heads, and an import may bring millions.
const tinyBody = 256

// headRun appends to dst the run for one of c's two heads: the tar headers, or what WP has.
func (c *compressor) headRun(dst, head []byte, cell *Cell) []byte {
	if cell.Kind == Page && cell.BodyLen <= tinyBody && len(head) <= maxFixed {
		return appendFixed(dst, head)
	}
	return append(dst, c.blocks(head)...)
}

// blockRun is a run of blocks that is being written. Flush writes what was passed so far; more may
// follow.
type blockRun interface {
	io.WriteCloser
	Flush() error
}

// run begins a run that is written to dst; Close ends it. An empty run has no bytes. How the data
// is divided among calls of Write does not change the bytes.
func (c *compressor) run(dst io.Writer, stored bool) blockRun {
	if stored {
		return &storedRun{dst: dst}
	}
	c.deflate.Reset(dst)
	return &deflateRun{w: c.deflate}
}

type deflateRun struct {
	w       *flate.Writer
	written bool
}

func (r *deflateRun) Write(p []byte) (int, error) {
	r.written = r.written || len(p) > 0
	return r.w.Write(p)
}

func (r *deflateRun) Close() error { return r.Flush() }

func (r *deflateRun) Flush() error {
	if !r.written {
		return nil
	}
	r.written = false
	return r.w.Flush()
}

type storedRun struct {
	dst io.Writer
	buf []byte
}

func (r *storedRun) Write(p []byte) (int, error) {
	for n := 0; n < len(p); {
		k := min(maxStored-len(r.buf), len(p)-n)
		r.buf = append(r.buf, p[n:n+k]...)
		if n += k; len(r.buf) == maxStored {
			if err := r.Close(); err != nil {
				return n, err
			}
		}
	}
	return len(p), nil
}

func (r *storedRun) Close() error { return r.Flush() }

func (r *storedRun) Flush() error {
	if len(r.buf) == 0 {
		return nil
	}
	_, err := r.dst.Write(storedBlock(r.buf, false))
	r.buf = r.buf[:0]
	return err
}
