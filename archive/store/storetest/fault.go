// Package storetest helps to test code that uses a store: it has a wrapper that fails on demand
// (Fault), and S3 servers.
package storetest

import (
	"context"
	"errors"
	"io"
	"iter"

	"sheaf/archive/store"
)

// ErrInjected is the error of an injected fault. It says nothing about the outcome.
var ErrInjected = errors.New("injected fault")

// Outcome says how a call to a Fault ends.
type Outcome int

// The outcomes that Decide and DecideRead may return.
const (
	Works            Outcome = iota
	Fails                    // the call does nothing and returns an error
	FailsButHappened         // the call succeeds, but returns an error all the same
	Stalls                   // the call blocks until its context ends
	Truncates                // half of the bytes are transferred, then the call fails; nothing is stored
)

// Fault is a Store in which Decide and DecideRead decide how each call ends.
type Fault struct {
	store.Store
	// Decide is called before each Put and Delete; it may be called concurrently.
	Decide func(op, key string) Outcome
	// DecideRead is called before each Open, Stat and List; if it is nil, all of them work.
	DecideRead func(op, key string) Outcome
}

// Put implements store.Store.
func (f *Fault) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	outcome := f.Decide("put", key)
	if outcome == Truncates {
		if _, err := io.CopyN(io.Discard, r, size/2); err != nil {
			return err
		}
	}
	return call(ctx, outcome, func() error { return f.Store.Put(ctx, key, r, size) })
}

// Delete implements store.Store.
func (f *Fault) Delete(ctx context.Context, key string) error {
	return call(ctx, f.Decide("delete", key), func() error { return f.Store.Delete(ctx, key) })
}

// Open implements store.Store.
func (f *Fault) Open(ctx context.Context, key string, off, n int64) (r io.ReadCloser, err error) {
	outcome := f.read("open", key)
	if outcome == Truncates {
		return f.openHalf(ctx, key, off, n)
	}
	err = call(ctx, outcome, func() error {
		r, err = f.Store.Open(ctx, key, off, n)
		return err
	})
	if err != nil && r != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, err
}

// Stat implements store.Store.
func (f *Fault) Stat(ctx context.Context, key string) (info store.Info, err error) {
	err = call(ctx, f.read("stat", key), func() error {
		info, err = f.Store.Stat(ctx, key)
		return err
	})
	return info, err
}

// List implements store.Store. A truncated list fails behind its first object.
func (f *Fault) List(ctx context.Context, prefix, after string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		outcome := f.read("list", prefix)
		if outcome != Works && outcome != Truncates {
			yield(store.Info{}, call(ctx, outcome, func() error { return nil }))
			return
		}
		for info, err := range f.Store.List(ctx, prefix, after) {
			if !yield(info, err) {
				return
			}
			if outcome == Truncates {
				yield(store.Info{}, ErrInjected)
				return
			}
		}
	}
}

func (f *Fault) read(op, key string) Outcome {
	if f.DecideRead == nil {
		return Works
	}
	return f.DecideRead(op, key)
}

// openHalf returns a reader that fails halfway.
func (f *Fault) openHalf(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	r, err := f.Store.Open(ctx, key, off, n)
	if err != nil {
		return nil, err
	}
	if n < 0 {
		info, err := f.Store.Stat(ctx, key)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		n = info.Size - off
	}
	return &halfReader{ReadCloser: r, left: n / 2}, nil
}

type halfReader struct {
	io.ReadCloser
	left int64
}

func (r *halfReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, ErrInjected
	}
	n, err := r.ReadCloser.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}

func call(ctx context.Context, outcome Outcome, do func() error) error {
	switch outcome {
	case Fails, Truncates:
		return ErrInjected
	case Stalls:
		<-ctx.Done()
		return ctx.Err()
	case FailsButHappened:
		if err := do(); err != nil {
			return err
		}
		return ErrInjected
	default:
		return do()
	}
}
