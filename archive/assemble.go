package archive

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"sheaf/archive/deflate"
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
