package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"time"

	"sheaf/archive/deflate"
	"sheaf/archive/naming"
)

// Seal seals the segment as SealWritten does, and also a segment without cells. It closes the file.
func (w *Writer) Seal() (*Index, error) {
	if w.summed {
		if cells, ok := w.knownCells(); ok {
			return w.sealWith(cells)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("seal segment %s of %s: %w", w.segment, w.host, err)
	}
	return SealFile(w.file.Name(), w.host, w.segment, w.opt)
}

// SealFile seals the segment that a crash or Close left at path. It writes the index cell and the
// end member after the last whole cell, which it finds as Reopen does. It makes everything durable.
// The same records give the same bytes. After an error, SealFile may be tried again. If the segment
// has no whole cell, it gets no index, and the Index has no cells.
func SealFile(path, host, segmentID string, opt WriterOptions) (*Index, error) {
	w, cells, err := Reopen(path, host, segmentID, opt)
	if err != nil {
		return nil, err
	}
	if len(cells) == 0 {
		return &Index{Segment: segmentID, Host: host}, w.Close()
	}
	return w.sealWith(cells)
}

// SealWritten seals the segment that a Writer of this process has written and closed at path. If
// the file still has the CRC-32 of was, SealWritten does not inflate its pages again. Otherwise it
// does what SealFile does.
func SealWritten(path, host, segmentID string, was Written, opt WriterOptions) (*Index, error) {
	if !was.summed || was.Size == 0 {
		return SealFile(path, host, segmentID, opt)
	}
	w, err := Resume(path, host, segmentID, was, opt)
	if err != nil {
		return nil, err
	}
	cells, ok := w.knownCells()
	if !ok {
		if err := w.Close(); err != nil {
			return nil, err
		}
		return SealFile(path, host, segmentID, opt)
	}
	return w.sealWith(cells)
}

func (w *Writer) sealWith(cells []Cell) (*Index, error) {
	x, err := w.seal(cells)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, fmt.Errorf("seal segment %s of %s: %w", w.segment, w.host, err)
	}
	return x, nil
}

func (w *Writer) seal(cells []Cell) (*Index, error) {
	modified := time.Unix(0, 0)
	for i := range cells {
		if t := cells[i].Time; i == 0 || t.After(modified) {
			modified = t
		}
	}
	links, err := w.links(cells, modified)
	if err != nil {
		return nil, err
	}
	self, err := w.tarOnly(naming.IndexName(w.host, w.segment), modified, func(out io.Writer) error { return writeLines(out, cells, links) })
	if err != nil {
		return nil, err
	}
	end := EndMember(self.Offset, self.Len())
	at := self.Offset + self.Len()
	if _, err := w.file.WriteAt(end, at); err != nil {
		return nil, err
	}
	if err := w.file.Truncate(at + int64(len(end))); err != nil { // drops bytes that a failed Append may have left
		return nil, err
	}
	if !w.opt.NoSync {
		if err := w.file.Sync(); err != nil {
			return nil, err
		}
	}
	return &Index{Segment: w.segment, Host: w.host, Cells: cells, CellsEnd: self.Offset, IndexLength: self.Len(), links: links, self: self}, nil
}

// links writes the links cell. It returns nil if there are no links.
func (w *Writer) links(cells []Cell, modified time.Time) (*Cell, error) {
	log := linkLogOf(w.file.Name())
	if _, err := os.Stat(string(log)); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var lines int64
	c, err := w.tarOnly(naming.LinksName(w.host, w.segment), modified, func(out io.Writer) (err error) {
		lines, err = log.writeTo(out, cells, w.room(0))
		return err
	})
	if err != nil || lines == 0 {
		return nil, err
	}
	w.size += c.Len()
	return &c, nil
}

// writeLines writes the index lines of a segment's cells, and of the links cell if there is one.
func writeLines(out io.Writer, cells []Cell, links *Cell) error {
	var line []byte
	warcOff := int64(len(warcInfo()))
	for i := range cells {
		line = cells[i].appendLine(line[:0], warcOff)
		warcOff += cells[i].WARCLength()
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	if links != nil {
		_, err := out.Write(links.appendLinksLine(line[:0]))
		return err
	}
	return nil
}

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
