package ftpd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"sheaf/internal/ftp"
	"sheaf/internal/stream"
	"sheaf/serve/library"
)

// file is a download of a file from an offset to its end.
type file struct {
	of   *library.File
	ctx  context.Context
	left int64
	body io.ReadCloser // nil until the first Read
}

func open(ctx context.Context, f *library.File, offset int64) (ftp.File, error) {
	if offset < 0 || offset > f.Size {
		return nil, &ftp.Error{Code: 554, Msg: fmt.Sprintf("Restart at %d is beyond the file's %d bytes", offset, f.Size)}
	}
	return &file{of: f, ctx: ctx, left: f.Size - offset}, nil
}

func (d *file) Read(p []byte) (n int, err error) {
	if d.body == nil {
		if d.body, err = d.of.OpenRange(d.ctx, d.of.Size-d.left, d.left); err != nil {
			d.body = nil
			return 0, midway(d.of.Name, err)
		}
	}
	n, err = d.body.Read(p)
	d.left -= int64(n)
	return n, midway(d.of.Name, err)
}

// Extents implements ftp.Local.
func (d *file) Extents() (stream.Reader, error) {
	return d.of.Extents(d.of.Size-d.left, d.left)
}

// Pace implements ftp.Paced.
func (d *file) Pace(ctx context.Context, n int64) (int64, error) {
	n, err := d.of.Pace(ctx, n)
	return n, midway(d.of.Name, err)
}

// Remaining implements ftp.Sized.
func (d *file) Remaining() int64 { return d.left }

func (d *file) Close() error {
	if d.body == nil {
		return d.of.Close()
	}
	return errors.Join(d.body.Close(), d.of.Close())
}
