package store

import (
	"context"
	"fmt"
	"io"
)

// rangeReader reads the next left bytes of an object. It fails if its source ends before them.
type rangeReader struct {
	ctx    context.Context
	source io.ReadCloser
	key    string
	left   int64
}

func (r *rangeReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.source.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, r.short(err)
}

func (r *rangeReader) short(err error) error {
	if err == io.EOF && r.left > 0 {
		return fmt.Errorf("read %s: it ends %d bytes before the range does: %w", r.key, r.left, io.ErrUnexpectedEOF)
	}
	if err == io.EOF {
		return nil // the next call returns EOF
	}
	return err
}

func (r *rangeReader) Close() error { return r.source.Close() }

// fileRange is a rangeReader of a local file.
type fileRange struct{ rangeReader }

// WriteTo lets a network connection, as w, copy from the file within the kernel.
func (r *fileRange) WriteTo(w io.Writer) (int64, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := io.Copy(w, io.LimitReader(r.source, r.left))
	r.left -= n
	if err == nil && r.left > 0 {
		err = io.EOF
	}
	return n, r.short(err)
}
