package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"sheaf/internal/window"
)

// ErrNotFound says that there is nothing at a path for this account.
var ErrNotFound = errors.New("no such file or directory")

// ErrIsDirectory says that a file was wanted where there is a directory.
var ErrIsDirectory = errors.New("is a directory")

// ClosedError says that the account's window is closed.
type ClosedError struct {
	Window *window.Schedule
	Next   time.Time // when it opens again; zero: never
}

func (e *ClosedError) Error() string {
	if e.Next.IsZero() {
		return fmt.Sprintf("downloads are not allowed to this account (window %q)", e.Window)
	}
	return fmt.Sprintf("downloads are allowed from %s, %s (window %q)",
		e.Next.UTC().Format(time.RFC3339), e.Next.In(e.Window.Location()).Format("Monday 2 January 2006 15:04 MST"), e.Window)
}

// Node describes a file or directory of the tree.
type Node struct {
	Name     string // last element of its path; "/" at the root
	Dir      bool
	Size     int64     // bytes; files only
	Modified time.Time // UTC, whole seconds: the same by every protocol
	ETag     string    // strong, quoted; files only
	SHA256   string    // lower-case hex, where it is known
	Type     string    // media type; files only
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
	local   func() (*os.File, int64, error) // nil unless the file is one stretch of a local file
	end     *ClosedError                    // what readers get after the deadline
	until   time.Time                       // deadline; zero: none
	release func()
}

// Close gives the file's catalog version free. Readers that are open must be closed before.
func (f *File) Close() error {
	f.release()
	return nil
}

// OpenRange reads n bytes from off. Where the account's window closes meanwhile,
// reading goes on for the library's grace and then fails with a *ClosedError.
func (f *File) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if off < 0 || n < 0 || off > f.Size-n {
		return nil, fmt.Errorf("%s: range of %d bytes at %d is outside its %d bytes", f.Name, n, off, f.Size)
	}
	r, err := f.content.OpenRange(ctx, off, n)
	if err != nil || f.until.IsZero() {
		return r, err
	}
	return &timed{ReadCloser: r, until: f.until, end: f.end}, nil
}

// Local opens the local file of which f is the f.Size bytes from off on, so that
// the kernel can send them. It returns a nil file where f is not such a stretch,
// or where its reading must be watched because the account's window closes.
func (f *File) Local() (file *os.File, off int64, err error) {
	if f.local == nil || !f.until.IsZero() {
		return nil, 0, nil
	}
	return f.local()
}

// timed is a reader that fails after a deadline.
type timed struct {
	io.ReadCloser
	until time.Time
	end   *ClosedError
}

func (t *timed) Read(p []byte) (int, error) {
	if time.Now().After(t.until) {
		return 0, t.end
	}
	return t.ReadCloser.Read(p)
}
