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
	reads, writes chan struct{} // one element for each running operation
}

// NewLimit returns a Limit for the given numbers of reads (Open, Stat, List) and of writes (Put,
// Delete) at once. A number below one counts as one.
func NewLimit(s Store, reads, writes int) *Limit {
	return &Limit{Store: s, reads: make(chan struct{}, max(1, reads)), writes: make(chan struct{}, max(1, writes))}
}

// Unwrap implements Wrapper.
func (s *Limit) Unwrap() Store { return s.Store }

func run(ctx context.Context, slots chan struct{}, op func() error) error {
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-slots }()
	return op()
}

// Put implements Store.
func (s *Limit) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	return run(ctx, s.writes, func() error { return s.Store.Put(ctx, key, r, size) })
}

// Delete implements Store.
func (s *Limit) Delete(ctx context.Context, key string) error {
	return run(ctx, s.writes, func() error { return s.Store.Delete(ctx, key) })
}

// Open implements Store.
func (s *Limit) Open(ctx context.Context, key string, off, n int64) (r io.ReadCloser, err error) {
	err = run(ctx, s.reads, func() error {
		r, err = s.Store.Open(ctx, key, off, n)
		return err
	})
	return r, err
}

// Stat implements Store.
func (s *Limit) Stat(ctx context.Context, key string) (info Info, err error) {
	err = run(ctx, s.reads, func() error {
		info, err = s.Store.Stat(ctx, key)
		return err
	})
	return info, err
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
			if err := run(ctx, s.reads, func() error {
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
