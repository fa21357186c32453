package archive

import (
	"bytes"
	"io"

	"github.com/klauspost/compress/flate"
)

// cellLines keeps the cells of a segment under way as the lines that its index will
// have, most of them deflated: some 100 bytes a page, where a Cell with its strings is
// over 400, and a robot has a hundred thousand pages in open segments.
type cellLines struct {
	packed  []packedLines
	fresh   []byte // lines not packed yet
	warcOff int64  // where the next record lies in the segment's WARC view
}

type packedLines struct {
	deflated []byte // a run of open blocks
	n        int    // bytes of it, inflated
}

// packAt is how many bytes of lines are packed at a time.
const packAt = 2 << 10

func (l *cellLines) add(c *Cell, compress *compressor) {
	if l.warcOff == 0 {
		l.warcOff = int64(len(warcInfo()))
	}
	l.fresh = c.appendLine(l.fresh, l.warcOff)
	l.warcOff += c.WARCLength()
	if len(l.fresh) >= packAt {
		l.packed = append(l.packed, packedLines{bytes.Clone(compress.blocks(l.fresh)), len(l.fresh)})
		l.fresh = nil
	}
}

// writeTo writes all lines in order.
func (l *cellLines) writeTo(w io.Writer) error {
	for _, p := range l.packed {
		if _, err := io.CopyN(w, flate.NewReader(bytes.NewReader(p.deflated)), int64(p.n)); err != nil {
			return err
		}
	}
	_, err := w.Write(l.fresh)
	return err
}

// cells reads the lines back.
func (l *cellLines) cells(host string) ([]Cell, error) {
	var text bytes.Buffer
	if err := l.writeTo(&text); err != nil {
		return nil, err
	}
	cells := make([]Cell, 0, bytes.Count(text.Bytes(), []byte("\n")))
	for line := range bytes.Lines(text.Bytes()) {
		c, err := parseLine(string(line), host)
		if err != nil {
			return nil, err
		}
		cells = append(cells, *c)
	}
	return cells, nil
}
