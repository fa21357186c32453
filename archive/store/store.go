// Package store keeps objects: named runs of bytes that are written once, whole,
// and never changed afterwards. Everything that the archive must not lose lies in
// one Store, be it a local directory (FS) or a service across the network.
//
// The idea is put-if-absent. A key that exists is never overwritten, so a reader
// needs no lock, a writer that repeats itself does no harm, and "who was first"
// is decided by the store alone: that is all the catalog needs to number its
// versions. An object appears under its key at once and complete, or not at all.
//
// The interface is kept to five methods so that a wrapper (retry, limit, meter,
// fault) embeds a Store and replaces what it changes. Every store and every
// wrapper passes the suite in storetest.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"
)

// Errors that callers decide by. They come wrapped in an error that names the key.
var (
	// ErrExists says that the key is taken: an object is there, whole and durable.
	ErrExists = errors.New("object exists")
	// ErrNotExist says that there is no object under the key.
	ErrNotExist = errors.New("object does not exist")
	// ErrKey says that the key is not one that CheckKey accepts, or that the
	// store cannot hold it beside a key that is its directory.
	ErrKey = errors.New("bad object key")
	// ErrSize says that the reader given to Put held fewer or more bytes than
	// declared. Nothing was stored.
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

// Store holds objects under keys. Its methods may be called at once from any
// number of goroutines, and several processes may use one store.
//
// An error that is none of this package's says that the outcome is not known:
// a Put that failed so may have happened, and it is for the caller to look.
type Store interface {
	// Put stores exactly size bytes of r under key, unless the key is taken.
	// When it returns nil the object is durable: it survives a loss of power.
	// It fails with ErrExists where the key is taken, without touching what is
	// there, and with ErrSize where r is shorter or longer than size.
	Put(ctx context.Context, key string, r io.Reader, size int64) error

	// Open reads n bytes from off, or with n < 0 all from off to the end. It
	// fails with ErrRange where the range is not wholly in the object, and with
	// ErrNotExist where there is none. The reader stays good for as long as it
	// is open, even if the object is deleted meanwhile, or fails with an error
	// before its end; it never ends early without one.
	Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, error)

	// Stat describes the object, or fails with ErrNotExist.
	Stat(ctx context.Context, key string) (Info, error)

	// List yields the objects whose keys begin with prefix and sort after after,
	// in byte order of their keys. It does not hold the whole listing in memory.
	// What is put or deleted meanwhile may be yielded or not. An error ends it.
	List(ctx context.Context, prefix, after string) iter.Seq2[Info, error]

	// Delete removes the object, durably. A key without object is no error.
	Delete(ctx context.Context, key string) error
}

// Local is implemented by stores whose objects are files of this machine, so
// that they can be handed to the kernel to send. Find it with AsLocal.
type Local interface {
	// OpenFile opens the object's file for reading. The file is never written to.
	OpenFile(key string) (*os.File, error)
}

// Wrapper is implemented by stores around another store. A wrapper that must see
// every read, such as one that injects faults, does not implement it.
type Wrapper interface {
	Unwrap() Store
}

// AsLocal finds the Local store within wrappers. What is read from its files
// passes the wrappers by: it is neither counted nor limited nor tried again.
func AsLocal(s Store) (Local, bool) {
	for {
		if local, ok := s.(Local); ok {
			return local, true
		}
		w, ok := s.(Wrapper)
		if !ok {
			return nil, false
		}
		s = w.Unwrap()
	}
}

// MaxKey is the longest key, in bytes, and maxElement the longest part of one
// between slashes.
const (
	MaxKey     = 1024
	maxElement = 255
)

// CheckKey fails with ErrKey unless key can name an object in every store: parts
// of printable ASCII without space, quotes, backslash, or wildcards, separated by
// single slashes, none of them empty or beginning with a dot.
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

// Range is a part of one object that starts at a base offset: what archive calls
// a source of stored bytes.
type Range struct {
	store Store
	key   string
	base  int64
}

// Source gives the bytes of an object from base on.
func Source(s Store, key string, base int64) Range { return Range{s, key, base} }

// OpenFile opens the file that the object is, where the store keeps files: else it gives nil.
func (r Range) OpenFile() (f *os.File, base int64, err error) {
	files, ok := AsLocal(r.store)
	if !ok {
		return nil, 0, nil
	}
	f, err = files.OpenFile(r.key)
	return f, r.base, err
}

// OpenRange reads n bytes from off, counted from the base; see Store.Open.
func (r Range) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if off < 0 {
		return nil, fmt.Errorf("open %s: offset %d: %w", r.key, off, ErrRange)
	}
	return r.store.Open(ctx, r.key, r.base+off, n)
}
