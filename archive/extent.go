package archive

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"sync"

	"sheaf/archive/deflate"
	"sheaf/internal/stream"
)

// FileOpener is implemented by a Source that may be a range of a local file.
type FileOpener interface {
	// OpenFile opens the file in which the source begins at base. It returns nil if the source is
	// not a file. The caller closes the file, and may move its position.
	OpenFile() (f *os.File, base int64, err error)
}

const (
	// sendable is the least number of stored bytes that the kernel sends from the file. Fewer are
	// copied, which costs less than a system call.
	sendable = 32 << 10
	// extentBuffer limits the size of an extent that is joined from shorter pieces, in bytes.
	extentBuffer = 128 << 10
)

// Extents returns n bytes of the view from off as extents of local files. It returns nil if a
// source is no FileOpener, or if the first part is not in a local file. If only a later part is not
// in a local file, Next fails there.
func (v *View) Extents(off, n int64) (stream.Reader, error) {
	if err := checkRange(off, n, v.size); err != nil {
		return nil, err
	}
	for _, src := range v.sources {
		if _, ok := src.(FileOpener); !ok {
			return nil, nil
		}
	}
	x := &extents{walk: v.walk(off, n), part: -1, buf: make([]byte, 0, min(extentBuffer, n))}
	if len(v.sources) == 0 {
		return x, nil
	}
	local, err := x.open(0)
	if local {
		return x, nil
	}
	return nil, errors.Join(err, x.Close())
}

// extents implements stream.Reader. Long stored pieces become extents of their file. Short pieces
// between them are read and joined.
type extents struct {
	walk
	part int // the part whose file is open
	file *os.File
	base int64 // offset of the part in file

	buf    []byte // the extent that is being put together
	window []byte // stored bytes that were read ahead
	at     int64  // offset of window in the part
}

// open opens a part's file. It returns false if the part is not a file.
func (x *extents) open(part int) (bool, error) {
	if x.part == part {
		return true, nil
	}
	err := x.Close()
	if err != nil {
		return false, err
	}
	x.window = x.window[:0]
	if x.file, x.base, err = x.v.sources[part].(FileOpener).OpenFile(); err != nil || x.file == nil {
		return false, err
	}
	x.part = part
	return true, nil
}

// Next implements stream.Reader.
func (x *extents) Next(ctx context.Context) (stream.Extent, error) {
	if err := ctx.Err(); err != nil {
		return stream.Extent{}, context.Cause(ctx)
	}
	x.buf = x.buf[:0]
	for x.off < x.end {
		if len(x.pieces) == 0 {
			x.refill()
			x.join()
			continue
		}
		p := x.pieces[0]
		n := min(p.len(), x.end-x.off)
		if len(x.buf) > 0 && (n >= sendable || int64(len(x.buf))+n > extentBuffer) {
			break
		}
		e, err := x.take(p, n)
		if err != nil {
			return stream.Extent{}, err
		}
		x.advance(n)
		if e.Size() > 0 {
			return e, nil
		}
	}
	if len(x.buf) == 0 {
		return stream.Extent{}, io.EOF
	}
	return stream.Extent{Bytes: x.buf}, nil
}

// take returns the first n bytes of a piece as an extent. If they are few, it buffers them instead.
func (x *extents) take(p piece, n int64) (stream.Extent, error) {
	if p.given != nil {
		if n >= sendable {
			return stream.Extent{Bytes: p.given[:n]}, nil
		}
		x.buf = append(x.buf, p.given[:n]...)
		return stream.Extent{}, nil
	}
	switch local, err := x.open(x.cell.part); {
	case err != nil:
		return stream.Extent{}, err
	case !local:
		return stream.Extent{}, fmt.Errorf("part %d is no file, and others are", x.cell.part)
	case n >= sendable:
		return stream.Extent{File: x.file, Off: x.base + p.stored.off, Len: n}, nil
	}
	return stream.Extent{}, x.read(span{p.stored.off, n})
}

// join extends a members view's piece over the wanted cells that are stored directly after it.
func (x *extents) join() {
	if x.v.kind != Members || len(x.pieces) != 1 || x.pieces[0].given != nil {
		return
	}
	stored := &x.pieces[0].stored
	for x.next < len(x.v.refs) {
		ref := x.v.refs[x.next]
		if ref.part != x.cell.part || ref.cell.Offset != stored.end() {
			return
		}
		stored.n += ref.cell.Len()
		x.next++
	}
}

// read appends a short span of the open part to the buffer. If the cell is small, it also reads the
// small cells after it.
func (x *extents) read(s span) error {
	if s.off < x.at || s.end() > x.at+int64(len(x.window)) {
		ahead := s
		if c := x.cell.cell; !x.v.whole && c.Len() < sendable && s.end() <= c.Offset+c.Len() {
			ahead = x.run(sendable/8, sendable-1, extentBuffer)
		}
		if int64(cap(x.window)) < ahead.n {
			x.window = make([]byte, ahead.n, max(ahead.n, min(extentBuffer, x.end-x.off)))
		}
		x.window, x.at = x.window[:ahead.n], ahead.off
		if _, err := x.file.ReadAt(x.window, x.base+ahead.off); err != nil {
			x.window = x.window[:0]
			if err == io.EOF {
				err = io.ErrUnexpectedEOF // the file is shorter than its index says
			}
			return err
		}
	}
	from := s.off - x.at
	x.buf = append(x.buf, x.window[from:from+s.n]...)
	return nil
}

// Close closes the file that is open.
func (x *extents) Close() error {
	f := x.file
	x.file, x.part = nil, -1
	if f == nil {
		return nil
	}
	return f.Close()
}

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

// maxGap is the longest gap between cells, in bytes, that is read and dropped, not jumped over.
const maxGap = 64 << 10

// gatherReader reads the stored bytes of runs of cells, in order, with one open range for each run.
type gatherReader struct {
	ctx  context.Context
	src  Source
	part int
	run  span // the stored bytes of the cells
	rc   io.ReadCloser
	buf  *bufio.Reader
	at   int64 // offset of buf's next byte
}

// holds reports whether the run has the cell, at or after the current offset.
func (g *gatherReader) holds(ref cellRef) bool {
	return g.src != nil && g.part == ref.part && ref.cell.Offset >= g.at && ref.cell.Offset+ref.cell.Len() <= g.run.end()
}

// begin begins a run. Its range is opened when the first byte is read.
func (g *gatherReader) begin(src Source, part int, run span) {
	g.close()
	g.src, g.part, g.run, g.at = src, part, run, run.off
}

// gatherBuffers keeps the buffers of closed readers, because a buffer is larger than most pages.
var gatherBuffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 64<<10) }}

// close must not run while the reader is read: another reader may get its buffer at once.
func (g *gatherReader) close() error {
	if g.rc == nil {
		return nil
	}
	rc := g.rc
	g.rc = nil
	g.buf.Reset(nil)
	gatherBuffers.Put(g.buf)
	g.buf = nil
	return rc.Close()
}

// read reads at least one byte at off.
func (g *gatherReader) read(p []byte, off int64) (int, error) {
	if err := g.ctx.Err(); err != nil {
		return 0, err
	}
	if err := g.seek(off); err != nil {
		return 0, err
	}
	n, err := g.buf.Read(p)
	g.at += int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF // the source is shorter than its index says
	}
	return n, err
}

func (g *gatherReader) seek(off int64) error {
	if gap := off - g.at; g.rc != nil && gap >= 0 && gap <= maxGap {
		n, err := g.buf.Discard(int(gap))
		g.at += int64(n)
		return err
	}
	g.close()
	rc, err := g.src.OpenRange(g.ctx, off, g.run.end()-off)
	if err != nil {
		return err
	}
	g.rc, g.at, g.buf = rc, off, gatherBuffers.Get().(*bufio.Reader)
	g.buf.Reset(rc)
	return nil
}

// all reads a short span into memory.
func (g *gatherReader) all(s span) ([]byte, error) {
	b := make([]byte, s.n)
	for n := 0; n < len(b); {
		k, err := g.read(b[n:], s.off+int64(n))
		if n += k; err != nil && n < len(b) {
			return nil, err
		}
	}
	return b, nil
}
