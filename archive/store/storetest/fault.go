package storetest

import (
	"context"
	"errors"
	"io"

	"sheaf/archive/store"
)

// ErrInjected is the error of a fault: it tells nothing about the outcome.
var ErrInjected = errors.New("injected fault")

// Outcome is what a fault does to a call.
type Outcome int

// The two ways in which a call can fail, beside success.
const (
	Works            Outcome = iota
	Fails                    // nothing happens, and an error is returned
	FailsButHappened         // it happens, and an error is returned all the same
)

// Fault is a store whose writes fail as Decide says.
type Fault struct {
	store.Store
	// Decide is asked before each Put and Delete of a key; it may be called at once.
	Decide func(op, key string) Outcome
}

// Put implements store.Store.
func (f *Fault) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	return f.call("put", key, func() error { return f.Store.Put(ctx, key, r, size) })
}

// Delete implements store.Store.
func (f *Fault) Delete(ctx context.Context, key string) error {
	return f.call("delete", key, func() error { return f.Store.Delete(ctx, key) })
}

func (f *Fault) call(op, key string, do func() error) error {
	switch f.Decide(op, key) {
	case Fails:
		return ErrInjected
	case FailsButHappened:
		if err := do(); err != nil {
			return err
		}
		return ErrInjected
	default:
		return do()
	}
}
