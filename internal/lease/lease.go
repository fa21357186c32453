// Package lease lets one holder at a time do what must not be done by two at once:
// publish, collect, rebalance. It is the critical section of paper 002, entered and
// left with the consent of a majority (Etcd) or of the one control database (DB).
//
// What every engine promises:
//
//   - Of those who wait for a name the one who asked first comes next; nobody waits
//     for ever. Whoever is not heard of for the time to live is passed over, holder
//     or not.
//   - A holder's token is higher than that of every holder of the name before it,
//     and higher than whatever the name was raised to.
//   - The holder's context ends when the holder can no longer be sure. A machine
//     that stood still may nevertheless believe in its lease for a moment while
//     another has it. So a lease saves work, and correctness is the guarded thing's:
//     it keeps the highest token that it has seen, and refuses lower ones.
//
// The engines are apart in what they outlive. DB is as available as the database.
// Etcd goes on as long as any majority of its members does, while members die, come
// as learners, are promoted and are removed.
package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// ErrLost is the cause with which a holder's context ends when its lease is no
// longer certain, and is in the error of a Do whose work failed for that.
var ErrLost = errors.New("the lease is lost")

// Locker hands out leases. Its methods may be called at once.
type Locker interface {
	// Do waits for its turn, calls f while the name is its own, and gives the name
	// up. f's context ends with ErrLost as its cause where the lease is lost; the
	// token goes with every write that f does to what the lease guards. The error is
	// f's, or tells why f was not called.
	Do(ctx context.Context, name string, f func(ctx context.Context, token int64) error) error
	// Raise makes the tokens of the name, of all who ask from now on, higher than
	// least. It is for engines that have lost their memory: a database restored from
	// a backup, a new cluster, or one engine in the place of another.
	Raise(ctx context.Context, name string, least int64) error
}

// Options are what the engines have in common.
type Options struct {
	TTL    time.Duration // after which a holder that is not heard of is passed over; 10 s if zero
	Holder string        // the name of this process, for people; the presence's if empty
	Log    *slog.Logger  // nil: slog.Default()
}

func (o *Options) fill() {
	if o.TTL <= 0 {
		o.TTL = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
}

// releasing bounds how long giving a lease up may take; then it ends by itself.
const releasing = 5 * time.Second

// under calls f while keep runs beside it. keep returns when its context ends, or
// when the lease is lost, with ErrLost in its error; then f's context ends.
func under(ctx context.Context, token int64, keep func(context.Context) error, f func(context.Context, int64) error) error {
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

// pause waits, or returns false where ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
