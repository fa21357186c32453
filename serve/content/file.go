package content

import (
	"context"
	"fmt"
	"io"

	"sheaf/internal/extent"
	"sheaf/serve/account"
	"sheaf/serve/bandwidth"
)

// File is an open file. Its bytes stay the same whatever is published meanwhile. It must be closed.
// Its methods may be called concurrently.
type File struct {
	Node
	ranges  Ranges
	permit  *account.Permit // nil: anybody may read it at any speed
	release func()
}

// Open opens a file for an account. It calls release when the file is closed, or if it fails. It
// fails with an *account.ClosedError outside the account's window and with a *bandwidth.QuotaError
// if the day's bytes are used up, unless the file may always be read.
func Open(ctx context.Context, e *Entry, x *account.Access, a *account.Account, release func()) (_ *File, err error) {
	f := &File{Node: e.Node, release: release}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if e.Dir {
		return nil, ErrIsDirectory
	}
	if !e.Always {
		if f.permit, err = x.Begin(ctx, a); err != nil {
			return nil, err
		}
	}
	f.ranges, err = e.Open(ctx)
	return f, err
}

// Close releases what the file reads from. All its readers must be closed before.
func (f *File) Close() error {
	f.release()
	if f.permit != nil {
		return f.permit.Close()
	}
	return nil
}

// OpenRange reads n bytes from off on, at the account's pace.
func (f *File) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if off < 0 || n < 0 || off > f.Size-n {
		return nil, fmt.Errorf("%s: range of %d bytes at %d is outside its %d bytes", f.Name, n, off, f.Size)
	}
	r, err := f.ranges.OpenRange(ctx, off, n)
	if err != nil || f.permit == nil {
		return r, err
	}
	return struct {
		io.Reader
		io.Closer
	}{bandwidth.Reader(ctx, r, n, f.Pace), r}, nil
}

// Extents returns n bytes from off on as extents of local files. The caller must call Pace before it
// sends them. It returns nil if the bytes do not lie in local files.
func (f *File) Extents(off, n int64) (extent.Reader, error) {
	if ranges, ok := f.ranges.(Extents); ok {
		return ranges.Extents(off, n)
	}
	return nil, nil
}

// Pace waits until the account may send some of the next n bytes, and returns how many. Callers that
// send extents must call it; readers from OpenRange call it themselves. For errors see
// account.Permit.Take.
func (f *File) Pace(ctx context.Context, n int64) (int64, error) {
	if f.permit == nil {
		return n, nil
	}
	return f.permit.Take(ctx, n)
}
