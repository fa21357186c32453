package deflate

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"

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

// MaxFixed is the longest input of AppendFixed, in bytes.
const MaxFixed = 4096

// AppendFixed appends to dst a run for data: one block with DEFLATE's fixed Huffman codes (RFC
// 1951, 3.2.6). The library chooses codes for each input, which takes most of its time if the input
// is short. Fixed codes deflate tar headers as well as chosen codes do; a record's head becomes
// about a fifth longer.
func AppendFixed(dst, data []byte) []byte {
	const (
		least     = 4  // bytes that match
		tableBits = 10 // of the hash of four bytes
	)
	if len(data) == 0 {
		return dst
	}
	var last [1 << tableBits]uint16 // by hash: one more than where the four bytes stood last
	w := FixedWriter{out: dst}
	w.Bits(0b010, 3)
	for i := 0; i < len(data); {
		n := 0
		if i+least <= len(data) {
			hash := binary.LittleEndian.Uint32(data[i:]) * 2654435761 >> (32 - tableBits)
			from := int(last[hash]) - 1
			if last[hash] = uint16(i + 1); from >= 0 {
				for n < maxMatch && i+n < len(data) && data[from+n] == data[i+n] {
					n++
				}
			}
			if n >= least {
				w.Match(n, i-from)
				i += n
				continue
			}
		}
		w.Literal(data[i])
		i++
	}
	w.EndBlock(false)
	return w.out
}

// FixedWriter packs the bits of blocks with fixed codes in DEFLATE's order: it fills a byte from
// its lowest bit, and writes Huffman codes from their highest bit on.
type FixedWriter struct {
	out []byte
	acc uint32
	n   uint
}

// Bits writes the n lowest bits of v, the lowest first.
func (w *FixedWriter) Bits(v uint32, n uint) {
	w.acc |= v << w.n
	for w.n += n; w.n >= 8; w.n -= 8 {
		w.out = append(w.out, byte(w.acc))
		w.acc >>= 8
	}
}

func (w *FixedWriter) code(v uint32, n uint) { w.Bits(bits.Reverse32(v)>>(32-n), n) }

// Literal writes the code of a byte.
func (w *FixedWriter) Literal(c byte) {
	if c < 144 {
		w.code(0b00110000+uint32(c), 8)
	} else {
		w.code(0b110010000+uint32(c)-144, 9)
	}
}

// Match writes a match of 3 to 258 bytes.
func (w *FixedWriter) Match(length, distance int) {
	symbol := len(lengthBase) - 1
	for length < int(lengthBase[symbol]) || symbol == len(lengthBase)-1 && length < maxMatch {
		symbol--
	}
	if symbol < 280-257 {
		w.code(uint32(symbol+1), 7)
	} else {
		w.code(0b11000000+uint32(symbol-(280-257)), 8)
	}
	w.Bits(uint32(length)-uint32(lengthBase[symbol]), uint(lengthExtra[symbol]))
	for symbol = len(distBase) - 1; distance < int(distBase[symbol]); {
		symbol--
	}
	w.code(uint32(symbol), 5)
	w.Bits(uint32(distance)-uint32(distBase[symbol]), uint(distExtra[symbol]))
}

// EndBlock ends a block. If the block is not final, an empty stored block follows, so that the next
// block begins on a byte boundary.
func (w *FixedWriter) EndBlock(final bool) {
	w.code(0, 7)
	if !final {
		w.Bits(0, 3)
		w.align()
		w.out = append(w.out, 0, 0, 0xff, 0xff)
	}
	w.align()
}

// Bytes returns the whole bytes so far; EndBlock completes the last byte.
func (w *FixedWriter) Bytes() []byte { return w.out }

func (w *FixedWriter) align() {
	if w.n > 0 {
		w.Bits(0, 8-w.n)
	}
}

// Zeros returns one fixed-Huffman block that decodes to n zero bytes: a literal, then the longest
// possible matches at distance 1, then up to two more literals. If the block is not final, an empty
// stored block follows, which ends on a byte boundary.
func Zeros(n int, final bool) []byte {
	if n == 0 && !final {
		return nil
	}
	var w FixedWriter
	header := uint32(0b010)
	if final {
		header |= 1
	}
	w.Bits(header, 3)
	if n > 0 {
		w.Literal(0)
		n--
	}
	for n >= 3 {
		m := min(n, maxMatch)
		w.Match(m, 1)
		n -= m
	}
	for ; n > 0; n-- {
		w.Literal(0)
	}
	w.EndBlock(final)
	return w.out
}
