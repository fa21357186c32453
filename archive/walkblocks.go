package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"sheaf/archive/deflate"
	"sheaf/internal/wire"
)

// blocks decodes a run of n stored bytes of the member m into out. It returns an error if they
// decode to more than most bytes.
func (w *walker) blocks(m *member, n, most int64, out io.Writer, what string, taps ...io.Writer) error {
	start := w.off
	limited := &io.LimitedReader{R: w, N: n}
	w.taps = taps
	count := &meter{w: w, out: out, what: what, most: most, stored: m.start + m.length}
	err := w.inflate.Inflate(count, limited)
	w.taps = nil
	if err == nil && n > 0 && limited.N == 0 && count.n == 0 {
		return w.fail(corrupt("%s has %d bytes of blocks that yield nothing", what, n), start)
	}
	var ferr *FormatError
	switch {
	case errors.As(err, &ferr):
		return w.fail(ferr, start)
	case limited.N > 0 && (err == nil || errors.Is(err, deflate.ErrBlocks)):
		if _, eof := w.in.Peek(1); eof != nil {
			return w.readError(eof, start, what)
		}
		fallthrough
	case errors.Is(err, deflate.ErrBlocks):
		at := w.off - int64(w.inflate.Unread())
		return w.fail(corrupt("%s, %d bytes of blocks, fail before %d: %v", what, n, at, err), start)
	case err != nil:
		return w.readError(err, start, what)
	}
	return nil
}

// meter counts decoded bytes. It returns an error beyond the rule of expansion or the run's limit.
type meter struct {
	w      *walker
	out    io.Writer
	what   string
	most   int64 // limit for the run, in decoded bytes
	stored int64 // end of the cell, as its head says; 0: the rule is not checked within the run
	n      int64 // decoded bytes of this run
}

func (m *meter) Write(p []byte) (int, error) {
	m.n += int64(len(p))
	if m.n > m.most {
		return 0, corrupt("%s decodes to more than its %d bytes", m.what, m.most)
	}
	m.w.decoded += int64(len(p))
	rule := wire.Expansion{Ratio: m.w.opt.MaxRatio, Grace: m.w.opt.Grace}
	if m.stored > 0 && rule.Room(m.w.decoded, m.stored) < 0 {
		return 0, &FormatError{Code: codeBombRatio, Excess: true, Msg: fmt.Sprintf("%d bytes decoded from %d stored, over the allowed %d and %d for each stored byte", m.w.decoded, m.stored, rule.Grace, rule.Ratio)}
	}
	return m.out.Write(p)
}

// limitedBuffer keeps up to max bytes, and returns an error for more.
type limitedBuffer struct {
	bytes.Buffer
	max int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.max {
		return 0, &FormatError{Code: codeBombRatio, Msg: fmt.Sprintf("headers decode to over %d bytes", b.max)}
	}
	return b.Buffer.Write(p)
}

// tarHeaders reads T after its head, and returns the decoded tar headers.
func (w *walker) tarHeaders(t *member, c *Cell) ([]byte, error) {
	buf := limitedBuffer{max: maxTarHeaders}
	within := &member{} // the rule of expansion applies at the cell's end, which is not known yet
	if err := w.blocks(within, t.length-emptyMember, math.MaxInt64, &buf, "the tar header", w.views.tarTap()...); err != nil {
		return nil, err
	}
	c.HeaderLen, c.HeaderCRC = int64(buf.Len()), deflate.CRC(buf.Bytes())
	if err := w.finish([]byte{3, 0}, c.HeaderCRC, c.HeaderLen, "the tar header's member"); err != nil {
		return nil, err
	}
	w.views.tarPiece(c.HeaderCRC, c.HeaderLen)
	return buf.Bytes(), nil
}

// finish reads a member's final block and its trailer, and compares them with the expected ones.
func (w *walker) finish(final []byte, crc uint32, size int64, what string) error {
	start := w.off
	got := make([]byte, len(final)+trailerSize)
	if err := w.full(got, "the end of "+what); err != nil {
		return err
	}
	want := appendTrailer(bytes.Clone(final), crc, size)
	switch n := len(final); {
	case !bytes.Equal(got[:n], want[:n]):
		return w.fail(corrupt("%s ends with block % x, want % x", what, got[:n], want[:n]), start+firstDifference(got, want))
	case !bytes.Equal(got[n:n+4], want[n:n+4]):
		return w.fail(corrupt("%s has CRC32 %08x, want %08x from its data", what, binary.LittleEndian.Uint32(got[n:]), crc), start+int64(n))
	case !bytes.Equal(got[n+4:], want[n+4:]):
		return w.fail(corrupt("%s has ISIZE %d, want %d from its data", what, binary.LittleEndian.Uint32(got[n+4:]), uint32(size)), start+int64(n)+4)
	}
	return nil
}
