package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"time"
)

// RetryOptions says how often and how long an operation is tried.
type RetryOptions struct {
	Attempts int           // at most; 5 where zero
	First    time.Duration // wait before the second attempt, doubled each time; 100 ms where zero
	Most     time.Duration // longest wait; 10 s where zero
}

// Retry repeats operations whose outcome is not known, after waits that grow and
// vary. Errors of this package, those of the caller's context, and those of
// the reader given to Put are final.
//
// A Put of unknown outcome is first looked for: where an object of the same size
// and SHA-256 is under the key it succeeded, and another object is ErrExists. So the
// writer of equal bytes that came first cannot be told from the one who asks:
// objects by which writers compete must differ, say by the writer's name. A Put is
// repeated only if its reader is an io.Seeker.
//
// A reader of Open goes on from where it failed, since objects never change.
type Retry struct {
	Store
	o RetryOptions
}

// NewRetry wraps a store.
func NewRetry(s Store, o RetryOptions) *Retry {
	if o.Attempts == 0 {
		o.Attempts = 5
	}
	if o.First == 0 {
		o.First = 100 * time.Millisecond
	}
	if o.Most == 0 {
		o.Most = 10 * time.Second
	}
	return &Retry{Store: s, o: o}
}

// Unwrap implements Wrapper.
func (s *Retry) Unwrap() Store { return s.Store }

// final reports whether an error tells the outcome, or nobody waits for it.
func final(ctx context.Context, err error) bool {
	return err == nil || known(err) || ctx.Err() != nil
}

// wait waits before attempt n, which counts from 1: half of the time at least,
// so that those who failed together do not come back together. It reports
// whether there is another attempt.
func (s *Retry) wait(ctx context.Context, n int) bool {
	if n >= s.o.Attempts {
		return false
	}
	d := s.o.Most
	if n < 32 { // more would overflow
		d = min(d, s.o.First<<(n-1))
	}
	timer := time.NewTimer(d/2 + rand.N(d/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
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
		// An object that is found is ours or another's; while there is none, try again.
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

// verify returns nil where the object under the key is the body, and ErrExists
// where it is another.
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
	r, err := s.Open(ctx, key, 0, -1)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, r)
	if err := errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("read back %s: %w", key, err)
	}
	if [sha256.Size]byte(sum.Sum(nil)) != want {
		return fmt.Errorf("put %s: an object of other bytes is there: %w", key, ErrExists)
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

func (s *Retry) open(ctx context.Context, key string, off, n int64) (r io.ReadCloser, err error) {
	err = s.do(ctx, func() error {
		r, err = s.Store.Open(ctx, key, off, n)
		return err
	})
	return r, err
}

// Stat implements Store.
func (s *Retry) Stat(ctx context.Context, key string) (info Info, err error) {
	err = s.do(ctx, func() error {
		info, err = s.Store.Stat(ctx, key)
		return err
	})
	return info, err
}

// Delete implements Store.
func (s *Retry) Delete(ctx context.Context, key string) error {
	return s.do(ctx, func() error { return s.Store.Delete(ctx, key) })
}

// List implements Store. After an error it goes on behind the last object.
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
