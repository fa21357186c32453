package store

import (
	"context"
	"fmt"
	"io"
	"os"
)

// fileRange reads the next left bytes of a file. It fails if the file ends before them.
type fileRange struct {
	ctx  context.Context
	file *os.File
	key  string
	left int64
}

func (r *fileRange) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.file.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, r.short(err)
}

// WriteTo lets a network connection, as w, copy from the file within the kernel.
func (r *fileRange) WriteTo(w io.Writer) (int64, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := io.Copy(w, io.LimitReader(r.file, r.left))
	r.left -= n
	if err == nil && r.left > 0 {
		err = io.EOF
	}
	return n, r.short(err)
}

func (r *fileRange) short(err error) error {
	if err == io.EOF && r.left > 0 {
		return fmt.Errorf("read %s: file ends %d bytes before the range does: %w", r.key, r.left, io.ErrUnexpectedEOF)
	}
	if err == io.EOF {
		return nil
	}
	return err
}

func (r *fileRange) Close() error { return r.file.Close() }
