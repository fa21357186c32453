package archive

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"time"

	"sheaf/archive/deflate"
	"sheaf/internal/files"
	"sheaf/internal/media"
	"sheaf/internal/wire"
)

// assemble makes the cell around the file's blocks. block is what WP holds after the WARC header:
// the HTTP header and, in a WARC-only record, the body.
func (w *Writer) assemble(h *warcHead, block []byte, file *fileSum) (*cellBytes, error) {
	h.keep(h.original)
	if err := h.check(); err != nil {
		return nil, fmt.Errorf("%w: %.100q: %w", ErrRefused, h.url, err)
	}
	c := Cell{Place: Place{Offset: w.size, BodyLen: file.n, BodyCRC: file.crc}}
	httpEnd := bytes.Index(block, []byte(crlf2)) + len(crlf2)
	if err := h.fillCell(&c, w.host, block[:httpEnd]); err != nil {
		return nil, fmt.Errorf("%w: %.100q: %w", ErrRefused, h.url, err)
	}
	w.head = append(h.appendTo(w.head[:0]), block...)
	head := w.head
	w.wp = appendHead(w.compress, append(w.wp[:0], gzipPlainStart...), head, &c)
	wp := w.wp
	if len(wp) > maxWP {
		return nil, fmt.Errorf("%w: the head of %.100q deflates to %d bytes, over %d", ErrRefused, h.url, len(wp), maxWP)
	}
	whole := deflate.JoinCRC(deflate.JoinCRC(deflate.CRC(head), file.crc, file.n), deflate.CRC([]byte(crlf2)), 4)
	ws := appendTrailer([]byte(recordEnd), whole, int64(len(head))+file.n+4)
	w.extra = appendField(appendField(w.extra[:0], "WS", ws), "WP", wp)
	extra := w.extra
	c.HeadLen = int64(len(wp))

	var headers []byte
	if h.kind == Page {
		w.headers = c.tarEntry().appendTo(w.headers[:0])
		headers = w.headers
	}
	out := w.frame(&c, headers, extra)
	record := crc32.NewIEEE()
	record.Write(wp)
	if err := w.body.copyTo(record); err != nil {
		return nil, err
	}
	record.Write(ws)
	c.RecordCRC = record.Sum32()
	out.cell, out.decoded = c, int64(len(headers)+len(head))+c.BodyLen
	if wire.ExpansionRoom(w.decoded+out.decoded, w.size+c.Len()) < 0 {
		return nil, fmt.Errorf("%w: the record of %.100q would decode to %d bytes from %d, for which the segment has no room", ErrRefused, h.url, out.decoded, c.Len())
	}
	return out, nil
}

// frame makes the two members around the file's blocks, and sets their lengths in c.
func (w *Writer) frame(c *Cell, headers, extra []byte) *cellBytes {
	c.HeaderLen, c.HeaderCRC = int64(len(headers)), deflate.CRC(headers)
	w.run = appendHead(w.compress, w.run[:0], headers, c)
	w.before = appendMember(w.before[:0], nil, w.run, []byte{3, 0}, c.HeaderCRC, c.HeaderLen)
	c.TLen = int64(len(w.before))
	pad := padBlock(c.BodyLen)
	c.BLen = int64(memberHead+len(extra)+len(pad)+trailerSize) + w.body.n
	padded := c.BodyLen + int64(padding(c.BodyLen))
	w.before = appendMemberHead(w.before, c.BLen, extra)
	return &cellBytes{
		cell:   *c,
		before: w.before,
		after:  appendTrailer(pad, deflate.CRCWithZeros(c.BodyCRC, padding(c.BodyLen)), padded),
	}
}

// tarOnly writes a cell without a record: a links or index cell.
func (w *Writer) tarOnly(name string, modified time.Time, content func(io.Writer) error) (Cell, error) {
	giveBack, err := w.borrow()
	if err != nil {
		return Cell{}, err
	}
	defer giveBack()
	run := w.compress.Begin(&w.body, false)
	sum := fileSum{to: io.Discard}
	if err := content(io.MultiWriter(run, &sum)); err != nil {
		return Cell{}, err
	}
	if err := run.Close(); err != nil {
		return Cell{}, err
	}
	c := Cell{Name: name, Place: Place{Offset: w.size, BodyLen: sum.n, BodyCRC: sum.crc}}
	out := w.frame(&c, (&tarEntry{name: name, size: sum.n, modified: modified}).headers(), nil)
	return c, w.write(out)
}

// cellBytes is a cell that is about to be written: the bytes before and after the file's blocks.
// The blocks themselves are in w.body.
type cellBytes struct {
	cell          Cell
	decoded       int64 // number of bytes that the cell decodes to
	before, after []byte
}

// write writes the cell's bytes at the segment's end, from first to last.
func (w *Writer) write(c *cellBytes) error {
	out := &summedWriter{io.NewOffsetWriter(w.file, w.size), w.sum}
	if w.body.file == nil { // small: one write
		w.whole = append(append(append(w.whole[:0], c.before...), w.body.mem.Bytes()...), c.after...)
		if _, err := out.Write(w.whole); err != nil {
			return err
		}
		w.sum = out.sum
		return nil
	}
	if _, err := out.Write(c.before); err != nil {
		return err
	}
	if err := w.body.copyTo(out); err != nil {
		return err
	}
	if _, err := out.Write(c.after); err != nil {
		return err
	}
	w.sum = out.sum
	return nil
}

// summedWriter passes bytes on, and adds them to the CRC-32 in sum.
type summedWriter struct {
	io.Writer
	sum uint32
}

func (w *summedWriter) Write(p []byte) (int, error) {
	w.sum = crc32.Update(w.sum, crc32.IEEETable, p)
	return w.Writer.Write(p)
}

// tinyBody is the length of the longest body, in bytes, for which appendHead prefers speed to size.
// A record with such a body is almost only heads, and an import may bring millions.
const tinyBody = 256

// appendHead deflates one of the cell's two heads, the tar headers or the content of WP, and
// appends the run to dst.
func appendHead(c *deflate.Compressor, dst, head []byte, cell *Cell) []byte {
	if cell.Kind == Page && cell.BodyLen <= tinyBody && len(head) <= deflate.MaxFixed {
		return deflate.AppendFixed(dst, head)
	}
	return append(dst, c.Run(head)...)
}

// Deflated is a body, deflated as segments store it.
type Deflated struct {
	Blocks io.Reader
	Size   int64 // bytes of Blocks
	Body   int64 // bytes that they decode to
}

// Deflater deflates bodies as a Writer does, for a Writer on another machine. It must not be used
// concurrently.
type Deflater struct {
	compress *deflate.Compressor
	copying  []byte
}

// NewDeflater returns a Deflater. level is the compression level, from 1 to 9.
func NewDeflater(level int) (*Deflater, error) {
	c, err := deflate.NewCompressor(level)
	return &Deflater{c, make([]byte, 32<<10)}, err
}

// Deflate writes the blocks of a page's body. http is the page's status line and header. Its media
// type says whether the body is compressed already.
func (d *Deflater) Deflate(dst io.Writer, http []byte, body io.Reader) error {
	_, mimeType, _ := parseHTTP(http) // a Writer would refuse the record
	run := d.compress.Begin(dst, media.IsCompressed(mimeType))
	if _, err := io.CopyBuffer(struct{ io.Writer }{run}, struct{ io.Reader }{body}, d.copying); err != nil {
		return err
	}
	return run.Close()
}

// begin begins the run of a page's body. If d holds the deflated body and all of it fits, begin
// stores d's blocks, and returns a run that drops its input.
func (w *Writer) begin(d *Deflated, stored bool) (deflate.Run, error) {
	if d == nil || d.Body > min(w.opt.MaxBody, w.room(d.Size)) {
		return w.compress.Begin(&w.body, stored), nil
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{&w.body}, struct{ io.Reader }{d.Blocks}, w.copying)
	return wholeRun{}, err
}

// wholeRun is a run whose blocks are stored already. It drops its input.
type wholeRun struct{}

func (wholeRun) Write(p []byte) (int, error) { return len(p), nil }
func (wholeRun) Flush() error                { return nil }
func (wholeRun) Close() error                { return nil }

// bodySum computes the digests of a record's payload and block. The block is HTTP header and body.
type bodySum struct {
	payload, block hash.Hash // payload is nil if its digest is known
	file           fileSum
}

// fileSum computes the CRC-32 and the length of the file in the tar, and passes its bytes on.
type fileSum struct {
	to  io.Writer
	crc uint32
	n   int64
}

func newBodySum(http []byte) *bodySum {
	s := &bodySum{payload: sha256.New(), block: sha256.New()}
	s.file.to = s
	s.block.Write(http)
	return s
}

// Write adds p to the digests only. A WARC-only record needs no more: its body is in its head.
func (s *bodySum) Write(p []byte) (int, error) {
	if s.payload != nil {
		s.payload.Write(p)
	}
	return s.block.Write(p)
}

func (f *fileSum) Write(p []byte) (int, error) {
	f.crc = crc32.Update(f.crc, crc32.IEEETable, p)
	f.n += int64(len(p))
	return f.to.Write(p)
}

// cellOverhead is an upper limit for a record's decoded headers, in bytes. Records with longer
// headers are refused if there is no room for them.
const cellOverhead = 256 << 10

// leastRoom is the least room, in bytes, for the rest of a body. With less, the body is cut.
const leastRoom = 64 << 10

// room returns how many bytes of a record's body the rule of expansion surely allows in the
// segment, if n deflated bytes of the body are stored already.
func (w *Writer) room(n int64) int64 {
	return wire.ExpansionRoom(w.decoded+cellOverhead, w.size+n)
}

// keep writes a body to the run and the sum, as far as MaxBody and the rule of expansion allow. It
// reports whether it cut the body.
func (w *Writer) keep(run deflate.Run, sum *fileSum, body io.Reader) (cut bool, err error) {
	out := io.MultiWriter(run, sum)
	most := w.opt.MaxBody
	fits := min(most, w.room(0))
	for fits > sum.n {
		if _, err := io.CopyBuffer(out, io.LimitReader(body, fits-sum.n), w.copying); err != nil {
			return false, err
		}
		if sum.n < fits {
			return false, nil
		}
		if fits == most {
			break
		}
		// The rule may allow more of the body once the bytes so far are deflated.
		if err := run.Flush(); err != nil {
			return false, err
		}
		room := min(most, w.room(w.body.n))
		if room < most && room-fits < leastRoom {
			break
		}
		fits = room
	}
	more, _ := io.CopyN(io.Discard, body, 1)
	return more > 0, nil
}

// spoolMemory is how many bytes a spool keeps in memory.
const spoolMemory = 256 << 10

// spool keeps the bytes that are written to it until it is reset. It keeps up to spoolMemory in
// memory, and further bytes in a temporary file.
type spool struct {
	dir  string
	mem  bytes.Buffer
	file *os.File
	n    int64
}

func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && s.mem.Len()+len(p) <= spoolMemory {
		s.n += int64(len(p))
		return s.mem.Write(p)
	}
	if s.file == nil {
		f, err := files.Nameless(s.dir)
		if err != nil {
			return 0, err
		}
		s.file = f
	}
	n, err := s.file.Write(p)
	s.n += int64(n)
	return n, err
}

// copyTo writes everything to w.
func (s *spool) copyTo(w io.Writer) error {
	if _, err := w.Write(s.mem.Bytes()); err != nil {
		return err
	}
	if s.file == nil {
		return nil
	}
	_, err := io.Copy(w, s.inFile())
	return err
}

// inFile returns a reader of the bytes in the file.
func (s *spool) inFile() io.Reader { return io.NewSectionReader(s.file, 0, s.n-int64(s.mem.Len())) }

// decodeTo decodes the blocks that are kept, and writes the result to w.
func (s *spool) decodeTo(w io.Writer) error {
	var blocks io.Reader = bytes.NewReader(s.mem.Bytes())
	if s.file != nil {
		blocks = io.MultiReader(blocks, s.inFile())
	}
	return deflate.NewInflater().Inflate(w, blocks)
}

func (s *spool) reset() {
	s.mem.Reset()
	s.n = 0
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
}
