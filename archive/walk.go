package archive

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"sync"
	"time"

	"sheaf/archive/deflate"
	"sheaf/internal/wire"
)

// Limits for parts of a cell that are held in memory while the cell is read, in decoded bytes.
const (
	maxTarHeaders = 64 << 10
	maxHead       = 1 << 20
	maxLine       = 64 << 10
	maxManifest   = 64 << 20
)

// walker reads and checks cells one after another, in one pass. It holds one cell's headers in
// memory, never a body.
type walker struct {
	in        *bufio.Reader
	off       int64 // of the next byte
	cell      int   // number of the current cell
	host      string
	mixed     bool // cells may be of several hosts; an index cell belongs to the last of them
	opt       VerifyOptions
	inflate   *deflate.Inflater
	taps      []io.Writer // get the stored bytes as they are read
	raw       hash.Hash   // of all bytes that were read; may be nil
	decoded   int64       // bytes inflated so far
	views     viewHashes
	onLine    func(line string) error
	segmentID string    // of the current links or index cell
	last      time.Time // time of the latest record
	manifest  []byte    // the batch's, after it was read
}

// walkers keeps the buffers of walkers that are done: 450 KB each, where most indexes have less.
var walkers = sync.Pool{New: func() any { return &walker{in: bufio.NewReaderSize(nil, 256<<10), inflate: deflate.NewInflater()} }}

// newWalker returns a walker of r. Call free when it is done.
func newWalker(r io.Reader, opt VerifyOptions) *walker {
	w := walkers.Get().(*walker)
	w.in.Reset(r)
	w.begin(opt)
	return w
}

// begin makes the walker forget all that it has read, but for what is in its buffer.
func (w *walker) begin(opt VerifyOptions) {
	*w = walker{in: w.in, inflate: w.inflate, host: opt.Host, opt: opt.orDefault()}
}

// free gives the walker's buffers to the next walker.
func (w *walker) free() {
	w.in.Reset(nil)
	w.begin(VerifyOptions{})
	walkers.Put(w)
}

func (o VerifyOptions) orDefault() VerifyOptions {
	o.MaxRatio = cmp.Or(max(o.MaxRatio, 0), wire.MaxRatio)
	o.Grace = cmp.Or(max(o.Grace, 0), wire.Grace)
	o.MaxBody = cmp.Or(max(o.MaxBody, 0), wire.MaxBody)
	return o
}

type itemKind int

const (
	cellItem itemKind = iota
	linksItem
	indexItem
	manifestItem
	endItem
)

// item is one cell, or the end member.
type item struct {
	kind     itemKind
	cell     Cell
	segment  string // linksItem, indexItem: the segment's ID
	manifest []byte // manifestItem
	indexOff int64  // endItem: from WI
	indexLen int64
}

func (w *walker) fail(e *FormatError, off int64) error {
	e.Offset, e.Cell = off, w.cell
	return e
}

// Read reads stored bytes, and passes them to raw and to the taps.
func (w *walker) Read(p []byte) (int, error) {
	n, err := w.in.Read(p)
	w.off += int64(n)
	if w.raw != nil {
		w.raw.Write(p[:n])
	}
	for _, tap := range w.taps {
		tap.Write(p[:n])
	}
	return n, err
}

func (w *walker) full(p []byte, what string) error {
	start := w.off
	_, err := io.ReadFull(w, p)
	if err == nil {
		return nil
	}
	return w.readError(err, start, what)
}

func (w *walker) readError(err error, start int64, what string) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return w.fail(&FormatError{Code: codeTruncated, Msg: fmt.Sprintf("ends at %d within %s", w.off, what)}, start)
	}
	return w.fail(&FormatError{Code: codeTruncated, Msg: "reading " + what, Err: err}, start)
}

// member is the head of a gzip member.
type member struct {
	start, length int64
	ws, wp, wi    []byte
	wpOff         int64
	fields        int // number of extra fields, without WL
}

// commonPrefix returns the length of the longest common beginning of a and b, in bytes.
func commonPrefix[T string | []byte](a, b T) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// firstDifference returns the offset of the first byte in which a and b differ.
func firstDifference(a, b []byte) int64 { return int64(commonPrefix(a, b)) }

// blocksStart returns the offset of the member's blocks.
func (m *member) blocksStart() int64 {
	n := m.start + memberHead
	for _, f := range [][]byte{m.ws, m.wp, m.wi} {
		if f != nil {
			n += fieldHead + int64(len(f))
		}
	}
	return n
}

// member reads the head of a member, including its extra fields.
func (w *walker) member(what string) (*member, error) {
	m := &member{start: w.off}
	var head [gzipHeader + 2]byte
	if err := w.full(head[:], what); err != nil {
		return nil, err
	}
	if string(head[:gzipHeader]) != gzipStart {
		return nil, w.fail(corrupt("%s begins with % x, want % x", what, head[:gzipHeader], gzipStart), m.start+firstDifference(head[:], []byte(gzipStart)))
	}
	xlen := int(binary.LittleEndian.Uint16(head[gzipHeader:]))
	if xlen > maxXLEN || xlen < fieldHead+8 {
		return nil, w.fail(corrupt("XLEN is %d, want %d to %d", xlen, fieldHead+8, maxXLEN), m.start+gzipHeader)
	}
	extra := make([]byte, xlen)
	if err := w.full(extra, what+"'s extra fields"); err != nil {
		return nil, err
	}
	if string(extra[:4]) != "WL\x08\x00" {
		return nil, w.fail(corrupt("the extra fields do not begin with WL"), m.start+gzipHeader+2)
	}
	length := binary.LittleEndian.Uint64(extra[4:])
	if length > 1<<50 || int64(length) < int64(gzipHeader+2+xlen+2+trailerSize) {
		return nil, w.fail(corrupt("WL says %d bytes, which its own head of %d does not fit", length, gzipHeader+2+xlen), m.start+gzipHeader+2+fieldHead)
	}
	m.length = int64(length)
	order := []struct {
		id   string
		data *[]byte
	}{{"WS", &m.ws}, {"WP", &m.wp}, {"WI", &m.wi}}
	for at := fieldHead + 8; at < xlen; {
		off := m.start + gzipHeader + 2 + int64(at)
		if xlen-at < fieldHead {
			return nil, w.fail(corrupt("%d bytes after the last extra field", xlen-at), off)
		}
		id, n := string(extra[at:at+2]), int(binary.LittleEndian.Uint16(extra[at+2:]))
		at += fieldHead
		for len(order) > 0 && order[0].id != id {
			order = order[1:]
		}
		if len(order) == 0 || n > xlen-at {
			return nil, w.fail(corrupt("extra field %q of %d bytes is unknown, out of order or too long", id, n), off)
		}
		*order[0].data = extra[at : at+n : at+n]
		if id == "WP" {
			m.wpOff = off + fieldHead
		}
		order = order[1:]
		m.fields++
		at += n
	}
	return m, nil
}

// end reports whether m is the end member. If so, end reads the rest of m and compares it with the
// result of EndMember.
func (w *walker) end(m *member) (it item, ok bool, err error) {
	it.kind = endItem
	if m.wi != nil {
		if len(m.wi) != 16 {
			return it, false, w.fail(corrupt("WI has %d bytes, want 16", len(m.wi)), m.start+memberHead)
		}
		it.indexOff = int64(binary.LittleEndian.Uint64(m.wi))
		it.indexLen = int64(binary.LittleEndian.Uint64(m.wi[8:]))
		if it.indexLen <= 0 || it.indexOff < 0 || m.fields != 1 {
			return it, false, w.fail(corrupt("WI says %d bytes at %d", it.indexLen, it.indexOff), m.start)
		}
	} else if m.fields != 0 {
		return it, false, nil
	}
	want := EndMember(it.indexOff, it.indexLen)
	if m.wi == nil {
		if rest, err := w.in.Peek(len(want) - memberHead); err == io.EOF && m.length == int64(len(want)) && bytes.HasPrefix(want[memberHead:], rest) {
			return it, false, w.fail(&FormatError{Code: codeTruncated, Msg: "ends within the end member"}, m.start)
		}
		if rest, _ := w.in.Peek(len(want) - memberHead); m.length != int64(len(want)) || !bytes.Equal(rest, want[memberHead:]) {
			return it, false, nil
		}
	}
	rest := make([]byte, len(want)-int(w.off-m.start))
	if err := w.full(rest, "the end member"); err != nil {
		return it, false, err
	}
	if !bytes.Equal(rest, want[len(want)-len(rest):]) || m.length != int64(len(want)) {
		off := m.start + gzipHeader + 2 + fieldHead // WL, unless the rest differs
		if n := firstDifference(rest, want[len(want)-len(rest):]); n < int64(len(rest)) {
			off = w.off - int64(len(rest)) + n
		}
		return it, false, w.fail(corrupt("the end member is not the one that FORMAT.md gives"), off)
	}
	return it, true, nil
}

// parseEndMember parses an end member with WI. ok is false for all other bytes.
func parseEndMember(b []byte) (indexOff, indexLen int64, ok bool) {
	at := memberHead + fieldHead
	if len(b) != endMemberSize || string(b[memberHead:at]) != "WI\x10\x00" {
		return 0, 0, false
	}
	off, n := int64(binary.LittleEndian.Uint64(b[at:])), int64(binary.LittleEndian.Uint64(b[at+8:]))
	return off, n, off >= 0 && n > 0 && bytes.Equal(b, EndMember(off, n))
}

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
	if err := w.blocks(within, t.length-emptyMember, math.MaxInt64, &buf, "the tar header", &w.views.single); err != nil {
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
