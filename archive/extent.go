package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

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
