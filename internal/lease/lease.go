// Package lease lets one process at a time do work that two must not do at once, such as
// publishing. A lease is granted by the control database (DB), or by a majority of the service's
// own processes (package quorum).
//
// Every Locker promises:
//
//   - Waiters for a name get it in the order in which they asked; none waits for ever. A holder
//     or waiter that does not answer for the TTL loses its place.
//   - A holder's token is higher than that of every earlier holder of the name, and higher than any
//     number given to Raise.
//   - The holder's context ends when the holder can no longer be sure of its lease. Even so, a
//     machine that was suspended may believe in its lease for a moment while another process has
//     it. So a lease only saves work; for correctness, the guarded resource must remember the
//     highest token that it has seen, and refuse lower ones.
//
// DB is as available as its database. A quorum works while any majority of its servers does,
// through failures and changes of the servers.
package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// ErrLost is the cause of a holder's context when its lease is no longer certain. If the work fails
// because of that, Do's error wraps ErrLost.
var ErrLost = errors.New("the lease is lost")

// Locker grants leases. Its methods may be called concurrently.
type Locker interface {
	// Do waits for its turn, calls f while it holds the name, and releases the name. If the lease
	// is lost, f's context ends with ErrLost as its cause. f must pass the token with every write
	// to the guarded resource. Do returns f's error, or the reason why f was not called.
	Do(ctx context.Context, name string, f func(ctx context.Context, token int64) error) error
	// Raise makes all further tokens of the name higher than least. Call it when the Locker does
	// not know the old tokens: after restoring the database from a backup, for a new quorum, or
	// when changing from one Locker to another.
	Raise(ctx context.Context, name string, least int64) error
}

// Options are the settings that all Lockers have.
type Options struct {
	TTL    time.Duration // a holder that does not answer for this time loses the lease; 10 s if zero
	Holder string        // name of this process, for people; that of the Presence if empty
	Log    *slog.Logger  // nil: discards
}

// Fill sets the defaults of TTL and Log.
func (o *Options) Fill() {
	if o.TTL <= 0 {
		o.TTL = 10 * time.Second
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
}

// releasing is the time-out for releasing a lease. A lease that is not released ends by itself.
const releasing = 5 * time.Second

// Under is for implementations of Locker. It calls f and, concurrently, keep, which prolongs the
// lease. keep returns nil when its context ends, or ErrLost when the lease is lost; then f's
// context ends.
func Under(ctx context.Context, token int64, keep func(context.Context) error, f func(context.Context, int64) error) error {
	held, cancel := context.WithCancelCause(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() { cancel(keep(held)) })
	defer keeping.Wait()
	defer cancel(nil)
	err := f(held, token)
	if cause := context.Cause(held); err != nil && errors.Is(cause, ErrLost) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
