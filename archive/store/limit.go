package store

import (
	"context"
	"io"
	"iter"
)

// Limit is a Store that runs a limited number of operations at once. Further operations wait until
// an operation or their own context ends. Reads and writes have separate limits, so that a Put
// whose reader opens objects of the same store does not wait for itself. An Open counts only until
// it returns its reader, and a List does not count while its caller handles an object. So a slow
// caller blocks nobody.
type Limit struct {
	Store
	reads, writes slots
}

// NewLimit returns a Limit for the given numbers of reads (Open, Stat, List) and of writes (Put,
// Delete) at once. A number below one counts as one.
func NewLimit(s Store, reads, writes int) *Limit {
	return &Limit{Store: s, reads: make(slots, max(1, reads)), writes: make(slots, max(1, writes))}
}

// Unwrap implements Wrapper.
func (s *Limit) Unwrap() Store { return s.Store }

// slots has one element for each running operation.
type slots chan struct{}

func (s slots) run(ctx context.Context, op func() error) error {
	select {
	case s <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s }()
	return op()
}

// result returns what op returns when run has last called it.
func result[T any](ctx context.Context, run func(context.Context, func() error) error, op func() (T, error)) (v T, err error) {
	err = run(ctx, func() (err error) {
		v, err = op()
		return err
	})
	return v, err
}

// Put implements Store.
func (s *Limit) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	return s.writes.run(ctx, func() error { return s.Store.Put(ctx, key, r, size) })
}

// Delete implements Store.
func (s *Limit) Delete(ctx context.Context, key string) error {
	return s.writes.run(ctx, func() error { return s.Store.Delete(ctx, key) })
}

// Open implements Store.
func (s *Limit) Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	return result(ctx, s.reads.run, func() (io.ReadCloser, error) { return s.Store.Open(ctx, key, off, n) })
}

// Stat implements Store.
func (s *Limit) Stat(ctx context.Context, key string) (Info, error) {
	return result(ctx, s.reads.run, func() (Info, error) { return s.Store.Stat(ctx, key) })
}

// List implements Store.
func (s *Limit) List(ctx context.Context, prefix, after string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		next, stop := iter.Pull2(s.Store.List(ctx, prefix, after))
		defer stop()
		for {
			var info Info
			var failed error
			var more bool
			if err := s.reads.run(ctx, func() error {
				info, failed, more = next()
				return nil
			}); err != nil {
				yield(Info{}, err)
				return
			}
			if !more || !yield(info, failed) {
				return
			}
		}
	}
}
