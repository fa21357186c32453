package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sort"

	"sheaf/internal/wire"
)

// ErrTaken says that another writer has appended an entry with the same number.
var ErrTaken = errors.New("number was taken by another")

// Log is an append-only log of objects. Entries are numbered from 1 without gaps: a writer must
// have read entry N before it puts entry N+1. So if an entry exists, all earlier ones exist.
type Log struct {
	Store Store
	Key   func(n int64) string
}

// Last returns the number of the last entry; 0 means that the log is empty. n is an entry known to
// exist, or 0. Last probes with doubling steps, then bisects.
func (l Log) Last(ctx context.Context, n int64) (int64, error) {
	var failed error
	exists := func(n int64) bool {
		_, err := l.Store.Stat(ctx, l.Key(n))
		if err != nil && !errors.Is(err, ErrNotExist) {
			failed = errors.Join(failed, err)
		}
		return err == nil
	}
	step := int64(1)
	for exists(n+step) && failed == nil {
		n += step
		step *= 2
	}
	more := sort.Search(int(step-1), func(i int) bool { return failed != nil || !exists(n+int64(i)+1) })
	return n + int64(more), failed
}

// Append puts entry n. It returns ErrTaken if another writer was first. A put that failed may still
// have stored the entry, and a put that found the number taken may have found its own entry. So
// Append compares the stored entry with data. If it cannot read the entry, it returns the put's
// error and the outcome is unknown: the caller may repeat the call.
func (l Log) Append(ctx context.Context, n int64, data []byte) error {
	put := func() error { return l.Store.Put(ctx, l.Key(n), bytes.NewReader(data), int64(len(data))) }
	failed := put()
	if failed == nil {
		return nil
	}
	there, err := ReadAll(ctx, l.Store, l.Key(n), 0, -1)
	switch {
	case err != nil:
		return failed
	case !bytes.Equal(there, data):
		return ErrTaken
	case errors.Is(failed, ErrExists):
		return nil
	}
	// The entry is visible, but the failure may have come before the sync of its directory.
	// ErrExists promises a durable object, so put again.
	if err := put(); err != nil && !errors.Is(err, ErrExists) {
		return failed
	}
	return nil
}

// PutOwn puts an object under a key that no other writer uses. A failed put may have stored the
// object, perhaps not yet durably, so PutOwn puts once more. If the second put succeeds or returns
// ErrExists, the object is durable; otherwise PutOwn returns the first error.
func PutOwn(ctx context.Context, st Store, key string, r io.ReaderAt, size int64) error {
	put := func() error { return st.Put(ctx, key, io.NewSectionReader(r, 0, size), size) }
	failed := put()
	if failed == nil {
		return nil
	}
	if err := put(); err != nil && !errors.Is(err, ErrExists) {
		return failed
	}
	return nil
}

// ReadAll reads n bytes of an object from off into memory; n < 0 means up to the end.
func ReadAll(ctx context.Context, st Store, key string, off, n int64) (data []byte, err error) {
	r, err := st.Open(ctx, key, off, n)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if n < 0 {
		data, err = io.ReadAll(r)
	} else {
		data = make([]byte, n)
		_, err = io.ReadFull(r, data)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return data, nil
}

// Digest returns the SHA-256, in hexadecimal, of n bytes of an object from off; n < 0 means up to
// the end.
func Digest(ctx context.Context, st Store, key string, off, n int64) (string, error) {
	r, err := st.Open(ctx, key, off, n)
	if err != nil {
		return "", err
	}
	digest, _, err := wire.DigestOf(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return "", fmt.Errorf("read %s: %w", key, err)
	}
	return digest, nil
}
