package archive

import (
	"bytes"
	"fmt"
	"io"
)

// frame is the layout of a file: stored bytes between given ones.
type frame struct {
	start  []byte
	stored int64 // number of stored bytes
	end    io.ReaderAt
	after  int64 // length of end
}

// Size returns the length of the file, in bytes.
func (f *frame) Size() int64 { return int64(len(f.start)) + f.stored + f.after }

// divide splits a range of the file: head is its part of start, [from, to) its range of stored
// bytes, and tail its part of end.
func (f *frame) divide(off, n int64) (head []byte, from, to int64, tail *io.SectionReader, err error) {
	if err := checkRange(off, n, f.Size()); err != nil {
		return nil, 0, 0, nil, err
	}
	begin := int64(len(f.start))
	end := begin + f.stored
	from, to = min(max(off, begin), end)-begin, min(max(off+n, begin), end)-begin
	first := max(off-end, 0)
	return f.start[min(off, begin):min(off+n, begin)], from, to, io.NewSectionReader(f.end, first, max(off+n-end, 0)-first), nil
}

// open returns n bytes of the file from off. It calls stored to open the range's stored bytes,
// unless the range has none.
func (f *frame) open(off, n int64, stored func(off, n int64) (io.ReadCloser, error)) (io.ReadCloser, error) {
	head, from, to, tail, err := f.divide(off, n)
	if err != nil {
		return nil, err
	}
	body := io.NopCloser(bytes.NewReader(nil))
	if from < to {
		if body, err = stored(from, to-from); err != nil {
			return nil, err
		}
	}
	return readCloser{io.MultiReader(bytes.NewReader(head), body, tail), body}, nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

// checkRange returns an error if n bytes at off are not within a file of the given size.
func checkRange(off, n, size int64) error {
	if off < 0 || n < 0 || off > size || n > size-off {
		return fmt.Errorf("range of %d bytes at %d is not within a file of %d", n, off, size)
	}
	return nil
}
