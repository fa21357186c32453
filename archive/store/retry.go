package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"time"

	"sheaf/internal/loop"
)

// RetryOptions says how often and at what intervals an operation is tried.
type RetryOptions struct {
	Attempts int           // 5 if zero
	First    time.Duration // wait before the second attempt, doubled each time; 100 ms if zero
	Most     time.Duration // longest wait; 10 s if zero
}

// Retry is a Store that repeats operations of unknown outcome. Its waits grow and vary at random.
// It does not repeat after an error of this package, of the caller's context, or of the reader
// given to Put.
//
// After a Put of unknown outcome Retry looks at the key. An object of the same size and SHA-256
// means success; any other object means ErrExists. So Retry cannot tell its own object from an
// equal one of another writer: if writers compete for a key, their objects must differ, for
// instance by the writer's name. Retry repeats a Put only if its reader is an io.Seeker.
//
// A reader from Open continues where it failed, since objects never change.
type Retry struct {
	Store
	o RetryOptions
}

// NewRetry wraps a store. Zero fields of o get their defaults.
func NewRetry(s Store, o RetryOptions) *Retry {
	o.Attempts = cmp.Or(o.Attempts, 5)
	o.First = cmp.Or(o.First, 100*time.Millisecond)
	o.Most = cmp.Or(o.Most, 10*time.Second)
	return &Retry{Store: s, o: o}
}

// Unwrap implements Wrapper.
func (s *Retry) Unwrap() Store { return s.Store }

// final reports whether the operation must not be retried: err tells its outcome, or ctx has ended.
func final(ctx context.Context, err error) bool {
	return err == nil || known(err) || ctx.Err() != nil
}

// wait sleeps after attempt n (from 1) has failed. It returns false if there must be no further
// attempt.
func (s *Retry) wait(ctx context.Context, n int) bool {
	return n < s.o.Attempts && loop.Pause(ctx, loop.Backoff{Min: s.o.First, Max: s.o.Most}.After(n))
}

func (s *Retry) do(ctx context.Context, op func() error) error {
	for n := 1; ; n++ {
		err := op()
		if final(ctx, err) || !s.wait(ctx, n) {
			return err
		}
	}
}

// Put implements Store.
func (s *Retry) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	body := &repeatable{r: r, sum: sha256.New()}
	body.mark()
	unknown := false // an attempt may have stored the object
	for n := 1; ; n++ {
		err := s.Store.Put(ctx, key, body, size)
		switch {
		case body.err != nil:
			return errors.Join(err, body.err)
		case errors.Is(err, ErrExists) && unknown:
			return s.verify(ctx, key, body, size)
		case final(ctx, err):
			return err
		}
		unknown = true
		// If an object is there, it is ours or another's. If there is none, try again.
		found := s.verify(ctx, key, body, size)
		if found == nil || errors.Is(found, ErrExists) {
			return found
		}
		if !body.canRepeat() || !s.wait(ctx, n) {
			return err
		}
		if err := body.rewind(); err != nil {
			return fmt.Errorf("put %s again: %w", key, err)
		}
	}
}

// verify returns nil if the object under the key is the body, and ErrExists if it is another
// object.
func (s *Retry) verify(ctx context.Context, key string, body *repeatable, size int64) error {
	info, err := s.Stat(ctx, key)
	if err != nil {
		return err
	}
	want, known, err := body.digest(size)
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	if !known || info.Size != size {
		return fmt.Errorf("put %s: another object is there: %w", key, ErrExists)
	}
	got, err := Digest(ctx, s, key, 0, -1)
	if err != nil {
		return fmt.Errorf("read back %s: %w", key, err)
	}
	if got != want {
		return fmt.Errorf("put %s: an object with other bytes is there: %w", key, ErrExists)
	}
	return nil
}

// Open implements Store.
func (s *Retry) Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	r, err := s.open(ctx, key, off, n)
	if err != nil {
		return nil, err
	}
	return &resumingReader{store: s, ctx: ctx, key: key, off: off, left: n, r: r}, nil
}

func (s *Retry) open(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	return result(ctx, s.do, func() (io.ReadCloser, error) { return s.Store.Open(ctx, key, off, n) })
}

// Stat implements Store.
func (s *Retry) Stat(ctx context.Context, key string) (Info, error) {
	return result(ctx, s.do, func() (Info, error) { return s.Store.Stat(ctx, key) })
}

// Delete implements Store.
func (s *Retry) Delete(ctx context.Context, key string) error {
	return s.do(ctx, func() error { return s.Store.Delete(ctx, key) })
}

// List implements Store. After an error it continues behind the last object.
func (s *Retry) List(ctx context.Context, prefix, after string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for n := 1; ; n++ {
			var failed error
			for info, err := range s.Store.List(ctx, prefix, after) {
				if err != nil {
					failed = err
					break
				}
				after, n = info.Key, 1
				if !yield(info, nil) {
					return
				}
			}
			if failed == nil {
				return
			}
			if final(ctx, failed) || !s.wait(ctx, n) {
				yield(Info{}, failed)
				return
			}
		}
	}
}

// repeatable is the body of a Put that may have to be sent again, or compared with a stored object.
type repeatable struct {
	r     io.Reader
	seek  io.Seeker // r, or nil if r cannot seek
	start int64     // offset of r at the beginning
	sum   hash.Hash // of the bytes read since start
	read  int64     // bytes
	err   error     // first error of r
}

// mark remembers where the body begins, if r can seek.
func (b *repeatable) mark() {
	seek, ok := b.r.(io.Seeker)
	if !ok {
		return
	}
	if start, err := seek.Seek(0, io.SeekCurrent); err == nil { // a pipe is an *os.File, but fails here
		b.seek, b.start = seek, start
	}
}

func (b *repeatable) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.read += int64(n)
	_, _ = b.sum.Write(p[:n]) // never fails
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

func (b *repeatable) canRepeat() bool { return b.seek != nil }

func (b *repeatable) rewind() error {
	b.sum.Reset()
	b.read = 0
	_, err := b.seek.Seek(b.start, io.SeekStart)
	return err
}

// digest returns the SHA-256 of the body, in hexadecimal. It reads the body again if it can seek.
// Otherwise the digest is known only if the whole body was read; before that, no store can have the
// object either.
func (b *repeatable) digest(size int64) (sum string, known bool, err error) {
	if b.read != size && b.canRepeat() {
		if err := b.rewind(); err != nil {
			return sum, false, err
		}
		if _, err := io.Copy(io.Discard, io.LimitReader(b, size)); err != nil {
			return sum, false, err
		}
	}
	return hex.EncodeToString(b.sum.Sum(nil)), b.read == size, nil
}

// resumingReader reopens an object after a failed read, and continues with the next byte. It gives
// up after RetryOptions.Attempts failures without a byte between them.
type resumingReader struct {
	store  *Retry
	ctx    context.Context
	key    string
	off    int64 // of the next byte
	left   int64 // bytes; negative: up to the end
	r      io.ReadCloser
	failed int // failures since the last byte
}

func (r *resumingReader) Read(p []byte) (int, error) {
	for {
		n, err := r.r.Read(p)
		if n > 0 {
			r.failed = 0
			r.off += int64(n)
			if r.left > 0 {
				r.left -= int64(n)
			}
			if err != io.EOF {
				err = nil // an error that persists comes again with the next read
			}
			return n, err
		}
		if err == nil || err == io.EOF {
			return 0, err
		}
		if r.failed++; final(r.ctx, err) || !r.store.wait(r.ctx, r.failed) {
			return 0, err
		}
		next, again := r.store.open(r.ctx, r.key, r.off, r.left)
		if again != nil {
			return 0, fmt.Errorf("%w; open it again: %w", err, again)
		}
		_ = r.r.Close() // reports nothing new
		r.r = next
	}
}

func (r *resumingReader) Close() error { return r.r.Close() }
