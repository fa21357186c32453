package archive

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"

	"sheaf/archive/deflate"
)

// knownCells reads back cells that this process has written. It decodes only the records' heads,
// and takes lengths and sums from the members. It returns false if the file has another CRC-32 than
// was written, or cannot be read.
func (w *Writer) knownCells() (cells []Cell, ok bool) {
	all := crc32.NewIEEE()
	walk := newWalker(io.NewSectionReader(w.file, 0, w.size), w.verify())
	defer walk.free()
	walk.raw = all
	for at := int64(0); at < w.size; {
		c, err := walk.known()
		if err != nil {
			return nil, false
		}
		cells = append(cells, *c)
		at += c.Len()
	}
	return cells, walk.off == w.size && all.Sum32() == w.sum
}

// known reads one cell that Append has written, without decoding its body.
func (w *walker) known() (*Cell, error) {
	t, err := w.member("a cell's first member")
	if err != nil {
		return nil, err
	}
	c := &Cell{Place: Place{Offset: t.start, TLen: t.length}}
	if err := w.pass(t.length-emptyMember+2, nil); err != nil {
		return nil, err
	}
	var trailer [trailerSize]byte
	if err := w.full(trailer[:], "the tar header's end"); err != nil {
		return nil, err
	}
	c.HeaderCRC, c.HeaderLen = binary.LittleEndian.Uint32(trailer[:]), int64(binary.LittleEndian.Uint32(trailer[4:]))
	b, err := w.member("a cell's second member")
	if err != nil {
		return nil, err
	}
	if b.ws == nil || b.wp == nil || len(b.ws) != wsSize {
		return nil, corrupt("a cell without a record")
	}
	c.BLen, c.HeadLen = b.length, int64(len(b.wp))
	head, err := w.head(b)
	if err != nil {
		return nil, err
	}
	warc, rest, _ := bytes.Cut(head, []byte(crlf2))
	http, _, ok := bytes.Cut(rest, []byte(crlf2))
	if !ok {
		return nil, corrupt("a record without header")
	}
	warc, http = head[:len(warc)+len(crlf2)], rest[:len(http)+len(crlf2)]
	h, err := parseWARC(warc)
	if err != nil {
		return nil, err
	}
	if c.HeaderLen > 0 {
		h.kind = Page
		if c.BodyLen = h.length - int64(len(http)); c.BodyLen < 0 {
			return nil, corrupt("a body of %d bytes", c.BodyLen)
		}
	}
	if err := h.fillCell(c, w.host, http); err != nil {
		return nil, err
	}
	record := crc32.NewIEEE()
	record.Write(b.wp)
	if err := w.pass(c.bodyBlocks().n, record); err != nil {
		return nil, err
	}
	record.Write(b.ws)
	c.RecordCRC = record.Sum32()
	whole := binary.LittleEndian.Uint32(b.ws[wsSize-trailerSize:])
	block := deflate.First(whole, deflate.CRC([]byte(crlf2)), int64(len(crlf2)))
	c.BodyCRC = deflate.LastCRC(block, deflate.CRC(head), c.BodyLen)
	return c, w.pass(b.start+b.length-w.off, nil)
}

// pass reads n stored bytes and, unless to is nil, copies them there.
func (w *walker) pass(n int64, to io.Writer) error {
	if n < 0 {
		return corrupt("a cell's parts are longer than the cell")
	}
	for n > 0 {
		if _, err := w.in.Peek(1); err != nil { // Peek fills the buffer
			return err
		}
		p, err := w.in.Peek(int(min(n, int64(w.in.Buffered()))))
		if err != nil {
			return err
		}
		w.raw.Write(p)
		if to != nil {
			to.Write(p)
		}
		if _, err := w.in.Discard(len(p)); err != nil {
			return err
		}
		w.off, n = w.off+int64(len(p)), n-int64(len(p))
	}
	return nil
}
