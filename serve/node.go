package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"sheaf/internal/extent"
	"sheaf/serve/account"
	"sheaf/serve/bandwidth"
)

// ErrNotFound says that there is nothing at a path for this account.
var ErrNotFound = errors.New("no such file or directory")

// ErrIsDirectory says that a file was wanted where there is a directory.
var ErrIsDirectory = errors.New("is a directory")

// Node describes a file or directory of the tree.
type Node struct {
	Name     string // last element of its path; "/" at the root
	Dir      bool
	Size     int64     // bytes; files only
	Modified time.Time // UTC, whole seconds: the same by every protocol
	ETag     string    // strong, quoted; files only
	SHA256   string    // lower-case hex, where it is known
	Type     string    // media type; files only
	Fixed    bool      // later editions leave its bytes as they are; only a take-down changes them
}

// ranges is where a file's bytes come from. Any number of readers may be open at once.
type ranges interface {
	OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error)
}

// File is an open file. It keeps its bytes whatever is published meanwhile, and
// must be closed. Its methods may be called from many goroutines at once.
type File struct {
	Node
	content ranges
	permit  *account.Permit // nil: anybody may read it at any speed
	release func()
}

// Close gives the file's catalog version free. Readers that are open must be closed before.
func (f *File) Close() error {
	f.release()
	if f.permit != nil {
		return f.permit.Close()
	}
	return nil
}

// OpenRange reads n bytes from off, at the account's pace: see Pace.
func (f *File) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if off < 0 || n < 0 || off > f.Size-n {
		return nil, fmt.Errorf("%s: range of %d bytes at %d is outside its %d bytes", f.Name, n, off, f.Size)
	}
	r, err := f.content.OpenRange(ctx, off, n)
	if err != nil || f.permit == nil {
		return r, err
	}
	return paced{bandwidth.Reader(ctx, r, n, f.Pace), r}, nil
}

// paced reads at a pace.
type paced struct {
	io.Reader
	io.Closer
}

// Extents gives n bytes from off on as extents of local files, of which Pace must be
// asked before they are sent. It returns nil where the bytes do not come from such.
func (f *File) Extents(off, n int64) (extent.Reader, error) {
	if content, ok := f.content.(extents); ok {
		return content.Extents(off, n)
	}
	return nil, nil
}

// extents are ranges that may lie in local files; nil where they do not.
type extents interface {
	Extents(off, n int64) (extent.Reader, error)
}

// Pace is the Take of the file's permit, for who sends extents; OpenRange's readers
// ask themselves.
func (f *File) Pace(ctx context.Context, n int64) (int64, error) {
	if f.permit == nil {
		return n, nil
	}
	return f.permit.Take(ctx, n)
}
