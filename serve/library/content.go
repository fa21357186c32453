package library

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"time"

	"sheaf/internal/stream"
	"sheaf/serve/account"
)

// Errors about paths, lists and bundles. They tell nothing of what an account may not know.
var (
	ErrNotFound    = errors.New("no such file or directory") // for this account
	ErrIsDirectory = errors.New("is a directory")
	ErrChanged     = errors.New("what was gathered may not be given out any more; gather it anew") // a record was taken down, or the account may not see it any more
	ErrCursor      = errors.New("cursor is not one that this service gave")
)

// IsNotFound reports whether an error says that there is nothing for this account.
func IsNotFound(err error) bool { return errors.Is(err, ErrNotFound) }

// Node describes a file or directory.
type Node struct {
	Name     string // last element of its path; "/" for the root
	Dir      bool
	Size     int64     // bytes; files only
	Modified time.Time // UTC, whole seconds: the same by every protocol
	ETag     string    // strong, quoted; files only
	SHA256   string    // lower-case hexadecimal; "" if it is not known
	Type     string    // media type; files only
	Fixed    bool      // later editions do not change its bytes; only a take-down does
}

// Entry is a file or directory that was found.
type Entry struct {
	Node
	Always bool                                  // may be read while the account's window is closed
	Open   func(context.Context) (Ranges, error) // files only
	List   List                                  // directories only
	Object string                                // key of the stored object that begins with the file's bytes, and may have more; "": none is known
}

// List calls emit with everything that a directory lists. It ends with emit's first error.
type List func(ctx context.Context, emit func(Node) error) error

// Directory returns the entry of a directory that list lists.
func Directory(name string, modified time.Time, list List) *Entry {
	return &Entry{Node: DirectoryNode(name, modified), List: list}
}

// DirectoryNode returns the Node of a directory: it has a time, and no size or digest.
func DirectoryNode(name string, modified time.Time) Node {
	return Node{Name: name, Dir: true, Modified: Seconds(modified)}
}

// Seconds returns a time in UTC, cut to whole seconds. Every protocol can show such a time.
func Seconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// Ranges is where a file's bytes come from. Any number of readers may be open at once.
type Ranges interface {
	OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error)
}

// Extents are Ranges whose bytes may lie in local files.
type Extents interface {
	Ranges
	// Extents returns n bytes from off on. It returns nil if they do not lie in local files.
	Extents(off, n int64) (stream.Reader, error)
}

// File is an open file. Its bytes stay the same whatever is published meanwhile. It must be closed.
// Its methods may be called concurrently.
type File struct {
	Node
	Object  string // see Entry
	ranges  Ranges
	permit  *account.Permit // nil: anybody may read it at any speed
	release func()
}

// Open opens a file for an account. File.Close calls release; if Open fails, Open itself calls
// release. Open fails with an *account.ClosedError outside the account's window and with a
// *account.QuotaError if the day's bytes are used up, unless the file may always be read.
func Open(ctx context.Context, e *Entry, x *account.Access, a *account.Account, release func()) (_ *File, err error) {
	f := &File{Node: e.Node, Object: e.Object, release: release}
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

// OpenRange returns a reader of n bytes from off on, slowed to the account's pace.
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
	}{account.Reader(ctx, r, n, f.Pace), r}, nil
}

// Extents returns n bytes from off on as extents of local files. The caller must call Pace before
// it sends them. It returns nil if the bytes do not lie in local files.
func (f *File) Extents(off, n int64) (stream.Reader, error) {
	if ranges, ok := f.ranges.(Extents); ok {
		return ranges.Extents(off, n)
	}
	return nil, nil
}

// Pace waits until the account may send some of the next n bytes, and returns how many. Callers
// that send extents must call it; readers from OpenRange call it themselves. For errors see
// account.Permit.Take.
func (f *File) Pace(ctx context.Context, n int64) (int64, error) {
	if f.permit == nil {
		return n, nil
	}
	return f.permit.Take(ctx, n)
}

// TakeAll counts the whole file as read, for callers that let the client read it elsewhere, and
// reports whether it did. It counts the file only if the account may read all of it at once, at any
// speed.
func (f *File) TakeAll() bool { return f.permit != nil && f.permit.TakeAll(f.Size) }

// Joined is a file that consists of parts, one after another. A part is opened when its bytes are
// read.
type Joined struct {
	Local bool            // whether all parts are Extents whose bytes lie in local files
	Parts int             // their number
	End   func(int) int64 // where a part ends in the file, by the part's number

	// Open returns the bytes of a part. length is how many of them are in the file.
	Open func(ctx context.Context, part int, length int64) (Ranges, error)
}

// part returns the part that holds the byte at off, and where the part begins and ends in the file.
func (j *Joined) part(ctx context.Context, off int64) (part Ranges, begin, end int64, err error) {
	i := sort.Search(j.Parts, func(i int) bool { return j.End(i) > off })
	if i > 0 {
		begin = j.End(i - 1)
	}
	end = j.End(i)
	part, err = j.Open(ctx, i, end-begin)
	return part, begin, end, err
}

// OpenRange implements Ranges.
func (j *Joined) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	return &joinedReader{file: j, ctx: ctx, at: off, end: off + n}, nil
}

// Extents implements Extents.
func (j *Joined) Extents(off, n int64) (stream.Reader, error) {
	if !j.Local {
		return nil, nil
	}
	return &joinedExtents{file: j, at: off, end: off + n}, nil
}

type joinedReader struct {
	file    *Joined
	ctx     context.Context
	at, end int64         // of the range that is still to be read
	part    io.ReadCloser // reads from at on; nil: to be opened
	left    int64         // bytes of part that are still to be read
}

func (r *joinedReader) Read(p []byte) (int, error) {
	for r.at < r.end {
		if r.part == nil {
			part, begin, end, err := r.file.part(r.ctx, r.at)
			if err != nil {
				return 0, err
			}
			r.left = min(end, r.end) - r.at
			if r.part, err = part.OpenRange(r.ctx, r.at-begin, r.left); err != nil {
				return 0, err
			}
		}
		n, err := r.part.Read(p[:min(int64(len(p)), r.left)])
		r.at += int64(n)
		r.left -= int64(n)
		if r.left == 0 {
			err = r.Close()
		} else if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.EOF
}

func (r *joinedReader) Close() error {
	part := r.part
	if r.part = nil; part == nil {
		return nil
	}
	return part.Close()
}

// joinedExtents returns the extents of one part after another.
type joinedExtents struct {
	file    *Joined
	at, end int64         // where the next part begins, and where the range ends
	part    stream.Reader // of the part before at; nil: to be opened
}

func (x *joinedExtents) Next(ctx context.Context) (stream.Extent, error) {
	for {
		if x.part != nil {
			e, err := x.part.Next(ctx)
			if err != io.EOF {
				return e, err
			}
			if err := x.Close(); err != nil {
				return stream.Extent{}, err
			}
		}
		if x.at >= x.end {
			return stream.Extent{}, io.EOF
		}
		part, begin, end, err := x.file.part(ctx, x.at)
		if err != nil {
			return stream.Extent{}, err
		}
		off, n := x.at-begin, min(end, x.end)-x.at
		x.at += n
		if b, ok := part.(Bytes); ok {
			return stream.Extent{Bytes: b[off : off+n]}, nil
		}
		if local, ok := part.(Extents); ok {
			x.part, err = local.Extents(off, n)
		}
		if err == nil && x.part == nil {
			err = errors.New("a part is no local file, and others are")
		}
		if err != nil {
			return stream.Extent{}, err
		}
	}
}

func (x *joinedExtents) Close() error {
	part := x.part
	if x.part = nil; part == nil {
		return nil
	}
	return part.Close()
}

// Bytes are Ranges in memory.
type Bytes []byte

// OpenRange implements Ranges.
func (b Bytes) OpenRange(_ context.Context, off, n int64) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(b[off : off+n])), nil
}
