package archive

import (
	"sort"

	"sheaf/archive/deflate"
)

// piece is a section of a view: stored bytes, or given ones.
type piece struct {
	stored span
	given  []byte
}

func (p *piece) len() int64 { return int64(len(p.given)) + p.stored.n }

// skip removes n bytes at the beginning.
func (p *piece) skip(n int64) {
	if p.given != nil {
		p.given = p.given[n:]
		return
	}
	p.stored = span{p.stored.off + n, p.stored.n - n}
}

// walk goes through the pieces of a range of a view.
type walk struct {
	v        *View
	off, end int64 // offsets in the view
	next     int   // the cell whose pieces come next
	cell     cellRef
	pieces   []piece // the pieces from off: of the view's start, of cell, or of the end
}

func (v *View) walk(off, n int64) walk {
	w := walk{v: v, off: off, end: off + n}
	w.next = sort.Search(len(v.ends), func(i int) bool { return v.ends[i] > off })
	return w
}

// advance moves n bytes forward, within the first piece.
func (w *walk) advance(n int64) {
	w.pieces[0].skip(n)
	w.off += n
	w.dropEmpty()
}

func (w *walk) dropEmpty() {
	for len(w.pieces) > 0 && w.pieces[0].len() == 0 {
		w.pieces = w.pieces[1:]
	}
}

// refill sets the next pieces, from off on: of the view's start, a cell or the view's end.
func (w *walk) refill() {
	v := w.v
	begin := int64(len(v.start))
	if w.next > 0 {
		begin = v.ends[w.next-1]
	}
	w.pieces = w.pieces[:0]
	switch {
	case v.whole:
		begin = 0
		w.cell = v.refs[0]
		w.pieces = append(w.pieces, piece{stored: span{0, v.size}})
	case w.off < int64(len(v.start)):
		begin = 0
		w.pieces = append(w.pieces, piece{given: v.start})
	case w.next == len(v.refs):
		w.pieces = append(w.pieces, piece{given: v.end})
	default:
		w.cell = v.refs[w.next]
		w.pieces = v.appendCell(w.pieces, &w.cell.cell)
		w.next++
	}
	skip := w.off - begin
	for i := range w.pieces {
		n := min(skip, w.pieces[i].len())
		w.pieces[i].skip(n)
		skip -= n
	}
	w.dropEmpty()
}

// run returns the stored range of the cell and of the wanted cells after it, as long as the gaps
// between them, the cells and the range itself are not longer than the given numbers of bytes.
func (w *walk) run(gap, cell, most int64) span {
	s := span{w.cell.cell.Offset, w.cell.cell.Len()}
	for i := w.next; i < len(w.v.refs) && w.v.ends[i-1] < w.end; i++ {
		ref := w.v.refs[i]
		skipped, n := ref.cell.Offset-s.end(), ref.cell.Offset+ref.cell.Len()-s.off
		if ref.part != w.cell.part || skipped < 0 || skipped > gap || ref.cell.Len() > cell || n > most {
			break
		}
		s.n = n
	}
	return s
}

// appendCell appends the pieces of a cell in the view.
func (v *View) appendCell(pieces []piece, c *Place) []piece {
	switch v.kind {
	case Members:
		return append(pieces, piece{stored: span{c.Offset, c.Len()}})
	case Single:
		return append(pieces, piece{stored: c.headerBlocks()}, piece{stored: c.bodyBlocks()},
			piece{given: deflate.Zeros(padding(c.BodyLen), false)})
	case Files:
		return append(pieces, piece{stored: span{c.Offset, c.TLen}}, piece{given: []byte(gzipPlainStart)}, piece{stored: c.file()})
	case Links:
		return append(pieces, piece{stored: c.bodyBlocks()})
	}
	return append(pieces, piece{stored: c.record()}, piece{stored: c.recordTail()})
}
