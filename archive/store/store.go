// Package store keeps objects: named sequences of bytes that are written once, as a whole, and
// never changed. Everything that the archive must not lose is in one Store: a local directory (FS)
// or a service across the network (S3).
//
// All writes are put-if-absent: an existing object is never overwritten. So readers need no lock,
// repeating a write does no harm, and the store decides which of two writers was first. The catalog
// needs only this to number its versions. An object appears under its key complete, or not at all.
//
// The interface has only five methods, so that a wrapper (Retry, Limit, Meter, storetest.Fault) can
// embed a Store and replace what it changes. Every store and every wrapper passes the suite in
// storetest.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"os"
	"strings"
	"time"
)

// Errors that callers tell apart. They come wrapped with the operation and the key.
var (
	// ErrExists says that the key is taken: an object is there, whole and durable.
	ErrExists = errors.New("object exists")
	// ErrNotExist says that there is no object under the key.
	ErrNotExist = errors.New("object does not exist")
	// ErrKey says that CheckKey rejects the key, or that the store cannot hold it: it is the
	// directory of another key, or another key is its directory.
	ErrKey = errors.New("bad object key")
	// ErrSize says that the reader given to Put held fewer or more bytes than declared. Nothing was
	// stored.
	ErrSize = errors.New("object is not of its declared size")
	// ErrRange says that a range does not lie within the object.
	ErrRange = errors.New("range is outside the object")
)

// Info describes one object.
type Info struct {
	Key      string
	Size     int64     // bytes
	Modified time.Time // when it was stored, by the store's clock
}

// Store holds objects under keys. Its methods may be called concurrently, and several processes may
// use one store.
//
// An error other than this package's means that the outcome is unknown. After such an error the
// object of a Put may be there; the caller must look.
type Store interface {
	// Put stores exactly size bytes of r under key. When it returns nil the object is durable: it
	// survives a power failure. If the key is taken, Put leaves the object alone and returns
	// ErrExists. If r is shorter or longer than size, it returns ErrSize.
	Put(ctx context.Context, key string, r io.Reader, size int64) error

	// Open reads n bytes from off, or up to the end if n < 0. It returns ErrNotExist if there is no
	// object, and ErrRange if the range is not wholly within it. If the object is deleted while the
	// reader is open, the reader either continues or fails with an error; it never ends early
	// without one.
	Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, error)

	// Stat describes the object, or fails with ErrNotExist.
	Stat(ctx context.Context, key string) (Info, error)

	// List yields the objects whose keys begin with prefix and sort after the key after, in byte
	// order. It does not hold the whole listing in memory. An object that is put or deleted
	// meanwhile may be yielded or not. An error ends the listing.
	List(ctx context.Context, prefix, after string) iter.Seq2[Info, error]

	// Delete removes the object, durably. Deleting a missing key is no error.
	Delete(ctx context.Context, key string) error
}

// Local is implemented by stores whose objects are local files, so that the kernel can send them to
// a socket. Use AsLocal to find it behind wrappers.
type Local interface {
	// OpenFile opens the object's file for reading. The file is never written to.
	OpenFile(key string) (*os.File, error)
}

// Presigner is implemented by stores that send an object to any client with a signed URL, without
// credentials. Use AsPresigner to find it behind wrappers.
type Presigner interface {
	// Presign returns a URL by which anybody can read the object until the URL expires. It does not
	// check that the object exists. A read that has begun before the URL expires goes on.
	Presign(ctx context.Context, key string, o PresignOptions) (*url.URL, error)
}

// PresignOptions say how long a presigned URL is valid, and set headers of its answer.
type PresignOptions struct {
	Expires     time.Duration // whole seconds, 1 second to 7 days
	Type        string        // Content-Type of the answer; empty: as the store has it
	Disposition string        // Content-Disposition of the answer; empty: none
}

// Wrapper is implemented by stores that wrap another store. A wrapper that must see every read,
// such as storetest.Fault, must not implement it.
type Wrapper interface {
	Unwrap() Store
}

// AsLocal returns the Local store within wrappers. Reads of its files bypass the wrappers: they are
// neither counted nor limited nor retried.
func AsLocal(s Store) (Local, bool) { return within[Local](s) }

// AsPresigner returns the Presigner within wrappers. Reads by its URLs bypass the wrappers, too.
func AsPresigner(s Store) (Presigner, bool) { return within[Presigner](s) }

// within returns the first store within wrappers that is a T.
func within[T any](s Store) (found T, ok bool) {
	for {
		if found, ok = s.(T); ok {
			return found, true
		}
		w, ok := s.(Wrapper)
		if !ok {
			return found, false
		}
		s = w.Unwrap()
	}
}

// MaxKey is the limit for a key and maxElement the limit for a part of a key between slashes, in
// bytes.
const (
	MaxKey     = 1024
	maxElement = 255
)

// CheckKey returns ErrKey unless every store takes key: at most MaxKey bytes of printable ASCII
// without space or any of "'*?<>|\, in parts between single slashes, each of 1 to maxElement bytes
// and without a dot at its beginning.
func CheckKey(key string) error {
	if key == "" || len(key) > MaxKey {
		return fmt.Errorf("%w %.64q: %d bytes long, want 1 to %d", ErrKey, key, len(key), MaxKey)
	}
	for part := range strings.SplitSeq(key, "/") {
		switch {
		case part == "":
			return fmt.Errorf("%w %q: empty part between slashes", ErrKey, key)
		case part[0] == '.':
			return fmt.Errorf("%w %q: part %q begins with a dot", ErrKey, key, part)
		case len(part) > maxElement:
			return fmt.Errorf("%w %q: part of %d bytes, at most %d allowed", ErrKey, key, len(part), maxElement)
		}
	}
	for i := range len(key) {
		if c := key[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`"'*?<>|\`, c) >= 0 {
			return fmt.Errorf("%w %q: byte %#02x is not allowed", ErrKey, key, c)
		}
	}
	return nil
}

// Range reads the bytes of one object from a base offset on. It implements archive.Source.
type Range struct {
	store Store
	key   string
	base  int64
}

// Source returns a Range over an object's bytes from base on.
func Source(s Store, key string, base int64) Range { return Range{s, key, base} }

// OpenFile opens the object's file. It returns nil if the store does not keep objects as files.
func (r Range) OpenFile() (f *os.File, base int64, err error) {
	files, ok := AsLocal(r.store)
	if !ok {
		return nil, 0, nil
	}
	f, err = files.OpenFile(r.key)
	return f, r.base, err
}

// OpenRange reads n bytes from off, counted from the base. See Store.Open.
func (r Range) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if off < 0 {
		return nil, fmt.Errorf("open %s: offset %d: %w", r.key, off, ErrRange)
	}
	return r.store.Open(ctx, r.key, r.base+off, n)
}

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
