package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"strings"
	"time"
)

// Limits of what is held in memory while a cell is read, in bytes decoded.
const (
	maxTarHeaders = 64 << 10
	maxHead       = 1 << 20
	maxLine       = 64 << 10
	maxManifest   = 64 << 20
)

// walker reads a run of cells in one pass and checks everything in them. It
// holds one cell's headers in memory, never a body.
type walker struct {
	in       *bufio.Reader
	off      int64 // of the next byte
	cell     int   // number of the current cell
	host     string
	opt      VerifyOptions
	inflate  *inflater
	section  *bufio.Reader // a run of blocks, for inflate
	taps     []io.Writer   // see the stored bytes as they are consumed
	raw      hash.Hash     // of all that was consumed; may be nil
	decoded  int64         // bytes inflated so far
	views    *viewHashes   // may be nil
	onLine   func(line string) error
	last     time.Time // the latest record's
	manifest []byte    // of the batch, once read
}

func newWalker(r io.Reader, opt VerifyOptions) *walker {
	if opt.MaxRatio <= 0 {
		opt.MaxRatio = DefaultMaxRatio
	}
	if opt.MaxBody <= 0 {
		opt.MaxBody = DefaultMaxBody
	}
	return &walker{in: bufio.NewReaderSize(r, 256<<10), host: opt.Host, opt: opt, inflate: newInflater(), section: bufio.NewReaderSize(nil, 32<<10)}
}

type itemKind int

const (
	cellItem itemKind = iota
	indexItem
	manifestItem
	endItem
)

// item is one cell, or the end member.
type item struct {
	kind     itemKind
	cell     Cell
	segment  string // indexItem: the segment's ID
	manifest []byte // manifestItem
	indexOff int64  // endItem: what WI says
	indexLen int64
}

// member is a gzip member's head.
type member struct {
	start, length int64
	ws, wp, wi    []byte
	wpOff         int64
	fields        int // how many besides WL
}

// firstDifference counts the bytes in which a and b begin alike.
func firstDifference(a, b []byte) int64 {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return int64(n)
}

// blocksStart is where the member's blocks begin.
func (m *member) blocksStart() int64 {
	n := m.start + memberHead
	for _, f := range [][]byte{m.ws, m.wp, m.wi} {
		if f != nil {
			n += fieldHead + int64(len(f))
		}
	}
	return n
}

func (w *walker) fail(e *FormatError, off int64) error {
	e.Offset, e.Cell = off, w.cell
	return e
}

// Read consumes stored bytes.
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

// next reads one cell. At the end of the input, between cells, it returns io.EOF.
func (w *walker) next() (item, error) {
	if _, err := w.in.Peek(1); err == io.EOF {
		return item{}, io.EOF
	}
	w.taps = nil
	t, err := w.member("a cell's first member")
	if err != nil {
		return item{}, err
	}
	if it, ok, err := w.end(t); ok || err != nil {
		return it, err
	}
	if t.fields != 0 {
		return item{}, w.fail(corrupt("a tar header's member has extra fields besides WL"), t.start)
	}
	c := Cell{Offset: t.start, TLen: t.length}
	headers, err := w.tarHeaders(t, &c)
	if err != nil {
		return item{}, err
	}
	b, err := w.member("a cell's second member")
	if err != nil {
		return item{}, err
	}
	c.BLen = b.length
	if b.ws == nil && b.wp == nil {
		return w.tarOnly(b, &c, headers)
	}
	if b.wp == nil || b.ws == nil || b.wi != nil {
		return item{}, w.fail(corrupt("a body's member must have WL, WS and WP"), b.start)
	}
	if err := w.record(b, &c, headers); err != nil {
		var ferr *FormatError
		if errors.As(err, &ferr) && ferr.Entry == "" {
			ferr.Entry = c.URL
		}
		return item{}, err
	}
	w.cell++
	if c.Time.After(w.last) {
		w.last = c.Time
	}
	return item{kind: cellItem, cell: c}, nil
}

// member reads a member's head, its extra fields included.
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

// end recognises the end member and checks it, whose bytes follow from WI.
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

// parseEndMember reads an end member with WI.
func parseEndMember(b []byte) (indexOff, indexLen int64, ok bool) {
	at := memberHead + fieldHead
	if len(b) != endMemberSize || string(b[memberHead:at]) != "WI\x10\x00" {
		return 0, 0, false
	}
	off, n := int64(binary.LittleEndian.Uint64(b[at:])), int64(binary.LittleEndian.Uint64(b[at+8:]))
	return off, n, off >= 0 && n > 0 && bytes.Equal(b, EndMember(off, n))
}

// blocks decodes a run of n stored bytes into out.
func (w *walker) blocks(n int64, out io.Writer, what string, taps ...io.Writer) error {
	start := w.off
	limited := &io.LimitedReader{R: w, N: n}
	w.section.Reset(limited)
	w.taps = taps
	m := &meter{w: w, out: out, stored: start + n}
	err := w.inflate.run(w.section, m)
	w.taps = nil
	if err == nil && n > 0 && limited.N == 0 && m.n == 0 {
		return w.fail(corrupt("%s has %d bytes of blocks that yield nothing", what, n), start)
	}
	var ferr *FormatError
	switch {
	case errors.As(err, &ferr):
		return w.fail(ferr, start)
	case limited.N > 0 && (err == nil || errors.Is(err, errBlocks)):
		if _, eof := w.in.Peek(1); eof != nil {
			return w.readError(eof, start, what)
		}
		fallthrough
	case errors.Is(err, errBlocks):
		at := w.off - int64(w.section.Buffered())
		return w.fail(corrupt("%s, %d bytes of blocks, fail before %d: %v", what, n, at, err), start)
	case err != nil:
		return w.readError(err, start, what)
	}
	return nil
}

// bombGrace is how much may be decoded whatever it was stored in.
const bombGrace = 64 << 20

// meter counts what is decoded and stops a bomb.
type meter struct {
	w      *walker
	out    io.Writer
	stored int64
	n      int64 // decoded of this run
}

func (m *meter) Write(p []byte) (int, error) {
	m.n += int64(len(p))
	m.w.decoded += int64(len(p))
	if m.w.decoded > bombGrace && m.w.decoded/m.w.opt.MaxRatio > m.stored {
		return 0, &FormatError{Code: codeBombRatio, Msg: fmt.Sprintf("%d bytes decoded from %d stored, over the allowed %d to 1", m.w.decoded, m.stored, m.w.opt.MaxRatio)}
	}
	return m.out.Write(p)
}

// limitedBuffer keeps up to max bytes and refuses more.
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

// tarHeaders reads the rest of T.
func (w *walker) tarHeaders(t *member, c *Cell) ([]byte, error) {
	buf := limitedBuffer{max: maxTarHeaders}
	if err := w.blocks(t.length-emptyMember, &buf, "the tar header", w.views.tarTap()...); err != nil {
		return nil, err
	}
	c.HeaderLen, c.HeaderCRC = int64(buf.Len()), crcOf(buf.Bytes())
	if err := w.finish([]byte{3, 0}, c.HeaderCRC, c.HeaderLen, "the tar header's member"); err != nil {
		return nil, err
	}
	w.views.tarPiece(c.HeaderCRC, c.HeaderLen)
	return buf.Bytes(), nil
}

// finish reads a member's final block and its trailer, whose values are known.
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

// record reads the rest of a B that has a record and checks it against headers, T's data.
func (w *walker) record(b *member, c *Cell, headers []byte) error {
	entry := ""
	if len(headers) > 0 {
		e, ferr := parseTarHeaders(headers)
		if ferr != nil {
			return w.fail(ferr, c.Offset)
		}
		entry = e.name
	}
	c.HeadLen = int64(len(b.wp))
	head, err := w.head(b)
	if err != nil {
		return err
	}
	n := bytes.Index(head, []byte(crlf2)) + len(crlf2)
	if n < len(crlf2) {
		return w.fail(corrupt("the WARC header has no end"), b.wpOff)
	}
	h, err := parseWARC(head[:n])
	if err != nil {
		return w.fail(corrupt("WARC header: %v", err), b.wpOff)
	}
	block := head[n:]
	httpEnd := bytes.Index(block, []byte(crlf2)) + len(crlf2)
	if httpEnd < len(crlf2) {
		return w.fail(corrupt("the HTTP header has no end"), b.wpOff)
	}
	http, cutBody := block[:httpEnd], block[httpEnd:]
	if len(headers) > 0 {
		h.kind = Page
		c.BodyLen = h.length - int64(httpEnd)
		if len(cutBody) > 0 || c.BodyLen < 0 {
			return w.fail(corrupt("WP holds %d bytes of body, which belong into the blocks after it", len(cutBody)), b.wpOff)
		}
	} else if h.length != int64(len(block)) {
		return w.fail(corrupt("Content-Length is %d, but WP holds %d bytes", h.length, len(block)), b.wpOff)
	}
	c.URL = h.url
	if err := w.identity(b, c, h, head[:n], http); err != nil {
		return err
	}
	if len(headers) > 0 {
		if err := w.sameEntry(c, entry, headers); err != nil {
			return err
		}
	}
	return w.body(b, c, h, head, http, cutBody)
}

// head decodes WP.
func (w *walker) head(b *member) ([]byte, error) {
	if len(b.wp) > maxWP || !bytes.HasPrefix(b.wp, []byte(gzipPlainStart)) {
		return nil, w.fail(corrupt("WP of %d bytes is over %d or does not begin with % x", len(b.wp), maxWP, gzipPlainStart), b.wpOff+min(firstDifference(b.wp, []byte(gzipPlainStart)), int64(len(b.wp))-1))
	}
	buf := limitedBuffer{max: maxHead}
	w.section.Reset(bytes.NewReader(b.wp[gzipHeader:]))
	if err := w.inflate.run(w.section, &meter{w: w, out: &buf, stored: w.off}); err != nil {
		var ferr *FormatError
		if !errors.As(err, &ferr) {
			ferr = corrupt("WP: %v", err)
		}
		return nil, w.fail(ferr, b.wpOff)
	}
	return buf.Bytes(), nil
}

// identity checks the record's header and says in c what it is.
func (w *walker) identity(b *member, c *Cell, h *warcHead, head, http []byte) error {
	host, err := HostOf(h.url)
	if err == nil {
		err = h.check()
	}
	if err == nil {
		err = h.fillCell(c, host, http)
	}
	if err != nil {
		return w.fail(corrupt("%v", err), b.wpOff)
	}
	if w.host == "" {
		w.host = host
	}
	if host != w.host {
		return w.fail(corrupt("a record of host %s among those of %s", host, w.host), b.wpOff)
	}
	if want := h.bytes(); !bytes.Equal(head, want) {
		return w.fail(corrupt("WARC header has %s", difference(head, want)), b.wpOff)
	}
	return nil
}

// difference shows the first line in which two headers are not the same.
func difference(got, want []byte) string {
	g, v := strings.SplitAfter(string(got), "\n"), strings.SplitAfter(string(want), "\n")
	for i := range min(len(g), len(v)) {
		if g[i] != v[i] {
			return fmt.Sprintf("line %d %.120q, want %.120q", i+1, g[i], v[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(v))
}

// sameEntry checks that T is the very tar header that the record asks for.
func (w *walker) sameEntry(c *Cell, entry string, headers []byte) error {
	want := c.tarEntry().headers()
	if bytes.Equal(headers, want) {
		return nil
	}
	ferr := corrupt("the tar header is not the one of its record")
	if entry != c.Name {
		ferr = corrupt("entry is called %q, want %q", entry, c.Name)
		if !strings.HasPrefix(entry, HostDir(w.host)+"/") {
			ferr.Code = codePathEscape
		}
	} else {
		for i := range min(len(headers), len(want)) {
			if headers[i] != want[i] {
				ferr = corrupt("tar header byte %d is %#02x, want %#02x from its record", i, headers[i], want[i])
				break
			}
		}
	}
	ferr.Entry = entry
	return w.fail(ferr, c.Offset)
}

// body reads the blocks and the end of B, and checks every digest and sum.
func (w *walker) body(b *member, c *Cell, h *warcHead, head, http, cutBody []byte) error {
	if c.BodyLen > w.opt.MaxBody {
		return w.fail(&FormatError{Code: codeBombRatio, Msg: fmt.Sprintf("body of %d bytes is over the allowed %d", c.BodyLen, w.opt.MaxBody)}, b.start)
	}
	pad := padBlock(c.BodyLen)
	n := b.start + b.length - trailerSize - int64(len(pad)) - b.blocksStart()
	if n < 0 {
		return w.fail(corrupt("WL says %d bytes, too few for the padding of a body of %d", b.length, c.BodyLen), b.start)
	}
	record := crc32.NewIEEE()
	record.Write(b.wp)
	taps := append(w.views.tarTap(), record)
	taps = append(taps, w.views.warcTap(b.wp)...)
	sum := newBodySum(http)
	sum.Write(cutBody)
	if err := w.blocks(n, &sum.file, "the body", taps...); err != nil {
		return err
	}
	if sum.file.n != c.BodyLen {
		return w.fail(corrupt("the body has %d bytes, want %d from Content-Length", sum.file.n, c.BodyLen), b.blocksStart())
	}
	c.BodyCRC = sum.file.crc
	padded := c.BodyLen + int64(padding(c.BodyLen))
	if err := w.finish(pad, crcWithZeros(c.BodyCRC, padding(c.BodyLen)), padded, "the body's member"); err != nil {
		return err
	}
	w.views.tarFile(c)
	if h.kind != Revisit {
		if got := digestString(sum.payload.Sum(nil)); got != h.payloadDigest {
			return w.fail(&FormatError{Code: codeSHA, Msg: fmt.Sprintf("payload digest is %s, want %s from the body", h.payloadDigest, got)}, b.wpOff)
		}
	} else if len(cutBody) > 0 {
		return w.fail(corrupt("a revisit has a body of %d bytes", len(cutBody)), b.wpOff)
	}
	if got := digestString(sum.block.Sum(nil)); got != h.blockDigest {
		return w.fail(&FormatError{Code: codeSHA, Msg: fmt.Sprintf("block digest is %s, want %s from the block", h.blockDigest, got)}, b.wpOff)
	}
	whole := crcJoin(crcJoin(crcOf(head), c.BodyCRC, c.BodyLen), crcOf([]byte(crlf2)), 4)
	want := appendTrailer([]byte(recordEnd), whole, int64(len(head))+c.BodyLen+4)
	if !bytes.Equal(b.ws, want) {
		return w.fail(corrupt("WS is % x, want % x from the record", b.ws, want), b.start+memberHead+fieldHead+firstDifference(b.ws, want))
	}
	record.Write(b.ws)
	c.RecordCRC = record.Sum32()
	w.views.warcEnd(b.ws)
	return nil
}

// bodySum takes the digests and sums of a record's block, the HTTP header first.
type bodySum struct {
	payload, block hash.Hash
	file           fileSum
}

// fileSum sums what is the file in the tar and passes it on.
type fileSum struct {
	to  *bodySum
	crc uint32
	n   int64
}

func newBodySum(http []byte) *bodySum {
	s := &bodySum{payload: sha256.New(), block: sha256.New()}
	s.file.to = s
	s.block.Write(http)
	return s
}

// Write adds to the digests alone: the body that a WARC-only record has in its head.
func (s *bodySum) Write(p []byte) (int, error) {
	s.payload.Write(p)
	return s.block.Write(p)
}

func (f *fileSum) Write(p []byte) (int, error) {
	f.crc = crc32.Update(f.crc, crc32.IEEETable, p)
	f.n += int64(len(p))
	return f.to.Write(p)
}

// tarOnly reads the rest of an index or manifest cell.
func (w *walker) tarOnly(b *member, c *Cell, headers []byte) (item, error) {
	if b.fields != 0 {
		return item{}, w.fail(corrupt("a tar-only cell's body has extra fields besides WL"), b.start)
	}
	e, ferr := parseTarHeaders(headers)
	if ferr != nil {
		return item{}, w.fail(ferr, c.Offset)
	}
	it := item{kind: indexItem}
	c.Name, c.BodyLen = e.name, e.size
	modified := w.last
	var out tarOnlyBody = &lineWriter{emit: w.onLine}
	if e.name == manifestName {
		it.kind, out, modified = manifestItem, &limitedBody{limitedBuffer{max: maxManifest}}, time.Unix(0, 0)
	} else {
		host, segment, ok := parseIndexName(e.name)
		if w.host == "" && ok {
			w.host = host
		}
		if !ok || host != w.host {
			ferr := corrupt("entry %q without a record is neither the index cell of %s nor a batch's manifest", e.name, w.host)
			if !strings.HasPrefix(e.name, HostDir(w.host)+"/") {
				ferr.Code = codePathEscape
			}
			return item{}, w.fail(ferr, c.Offset)
		}
		it.segment = segment
		if w.cell == 0 { // only the index is read
			modified = e.modified
		}
	}
	if want := (&tarEntry{name: e.name, size: e.size, modified: modified}).headers(); !bytes.Equal(headers, want) {
		return item{}, w.fail(corrupt("the tar header of %q differs from the one that FORMAT.md gives", e.name), c.Offset)
	}
	pad := padBlock(c.BodyLen)
	n := b.start + b.length - trailerSize - int64(len(pad)) - b.blocksStart()
	if n < 0 {
		return item{}, w.fail(corrupt("WL says %d bytes, too few", b.length), b.start)
	}
	sum := crc32.NewIEEE()
	count := &counter{}
	if err := w.blocks(n, io.MultiWriter(sum, count, out), e.name, w.views.tarTap()...); err != nil {
		return item{}, err
	}
	if err := out.Close(); err != nil {
		return item{}, w.fail(corrupt("%s: %v", e.name, err), b.start)
	}
	if count.n != c.BodyLen {
		return item{}, w.fail(corrupt("%s has %d bytes, want %d from its tar header", e.name, count.n, c.BodyLen), b.start)
	}
	c.BodyCRC = sum.Sum32()
	padded := c.BodyLen + int64(padding(c.BodyLen))
	if err := w.finish(pad, crcWithZeros(c.BodyCRC, padding(c.BodyLen)), padded, e.name); err != nil {
		return item{}, err
	}
	w.views.tarFile(c)
	if m, ok := out.(*limitedBody); ok {
		it.manifest = m.Bytes()
	}
	it.cell = *c
	return it, nil
}

type tarOnlyBody interface {
	io.Writer
	Close() error
}

type limitedBody struct{ limitedBuffer }

func (*limitedBody) Close() error { return nil }

type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// lineWriter divides what is written into lines.
type lineWriter struct {
	emit func(line string) error // may be nil
	part []byte
	n    int
}

func (l *lineWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			l.part = append(l.part, rest...)
			if len(l.part) > maxLine {
				return 0, corrupt("index line %d is longer than %d bytes", l.n+1, maxLine)
			}
			break
		}
		line := append(l.part, rest[:i+1]...)
		l.part, rest = l.part[:0], rest[i+1:]
		l.n++
		if l.emit == nil {
			continue
		}
		if err := l.emit(string(line)); err != nil {
			return 0, corrupt("index line %d: %v", l.n, err)
		}
	}
	return len(p), nil
}

func (l *lineWriter) Close() error {
	if len(l.part) > 0 {
		return errors.New("the last line has no end")
	}
	return nil
}
