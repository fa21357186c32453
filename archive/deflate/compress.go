package deflate

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/flate"
)

const maxStored = 1<<16 - 1 // bytes in one stored block

// Stored returns a block that holds up to maxStored bytes uncompressed.
func Stored(b []byte, final bool) []byte {
	out := make([]byte, 1, 5+len(b))
	if final {
		out[0] = 1
	}
	out = binary.LittleEndian.AppendUint16(out, uint16(len(b)))
	out = binary.LittleEndian.AppendUint16(out, ^uint16(len(b)))
	return append(out, b...)
}

// Compressor makes runs. It must not be used concurrently.
type Compressor struct {
	deflate *flate.Writer
	out     bytes.Buffer // the result of Run
}

// NewCompressor returns a Compressor. level is the compression level, from 1 to 9.
func NewCompressor(level int) (*Compressor, error) {
	w, err := flate.NewWriter(io.Discard, level)
	if err != nil {
		return nil, fmt.Errorf("compression level %d: %w", level, err)
	}
	return &Compressor{deflate: w}, nil
}

// Run returns the run for data in memory. The result is valid until the next call of Run.
func (c *Compressor) Run(data []byte) []byte {
	c.out.Reset()
	w := c.Begin(&c.out, false)
	w.Write(data) // cannot fail: into memory
	w.Close()
	return c.out.Bytes()
}

// Run is a run that is being written. Flush writes out all data so far; more may follow.
type Run interface {
	io.WriteCloser
	Flush() error
}

// Begin begins a run that is written to dst; Close ends it. If stored is true, the blocks hold the
// data uncompressed. An empty run has no bytes. The bytes do not depend on how calls of Write
// divide the data.
func (c *Compressor) Begin(dst io.Writer, stored bool) Run {
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
	_, err := r.dst.Write(Stored(r.buf, false))
	r.buf = r.buf[:0]
	return err
}
