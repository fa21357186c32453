// Package loop repeats, joins or delays calls until a context ends, wakes goroutines that wait, and
// sets how often Go collects garbage.
package loop

import (
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
)

// Every calls f at once and then at each interval, until ctx ends. Calls do not overlap: a call
// that is due while f runs follows at its end. Every passes f's errors to tell, except those after
// ctx has ended. If f never fails, tell may be nil. Every returns nil.
func Every(ctx context.Context, interval time.Duration, f func(context.Context) error, tell func(error)) error {
	return every(ctx, interval, true, f, tell)
}

// After is like Every, but makes the first call after the first interval.
func After(ctx context.Context, interval time.Duration, f func(context.Context) error, tell func(error)) error {
	return every(ctx, interval, false, f, tell)
}

func every(ctx context.Context, interval time.Duration, now bool, f func(context.Context) error, tell func(error)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for ; ; now = true {
		if now {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				tell(err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Together runs all functions at the same time and waits for their end. If one of them fails, the
// others' ctx ends. Together returns the first error.
func Together(ctx context.Context, all ...func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, run := range all {
		g.Go(func() error { return run(ctx) })
	}
	return g.Wait()
}

// Pause waits for d and returns true. If ctx ends before, it returns false at once.
func Pause(ctx context.Context, d time.Duration) bool { return Wait[struct{}](ctx, d, nil) }

// Sleep is like Pause, but returns nil, or the cause if ctx ends before. It does not wait for a d
// that is not positive.
func Sleep(ctx context.Context, d time.Duration) error {
	if d > 0 && !Pause(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}

// Wait is like Pause, but also returns, with true, when it receives a value from wake.
func Wait[T any](ctx context.Context, d time.Duration, wake <-chan T) bool {
	select {
	case <-ctx.Done():
	case <-wake:
	case <-time.After(d):
	}
	return ctx.Err() == nil
}

// Offer sends v if c has room for it. So a channel of capacity 1 has an element after Offer, and
// keeps the older of two.
func Offer[T any](c chan<- T, v T) {
	select {
	case c <- v:
	default:
	}
}

// Until returns a context that also ends when stop is closed, with why as its cause. The caller
// must call end when it needs the context no longer.
func Until(ctx context.Context, stop <-chan struct{}, why error) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-stop:
			cancel(why)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// Backoff is the wait after temporary failures.
type Backoff struct {
	Min, Max time.Duration // after the first, and after many
}

// After returns the wait after a number of failures in a row. It doubles each time, up to Max. Half
// of it is random, so that processes that failed together do not try again together.
func (b Backoff) After(failures int) time.Duration {
	wait := b.Max
	if shift := failures - 1; b.Min <= b.Max>>shift {
		wait = b.Min << shift
	}
	return wait/2 + rand.N(wait/2+1)
}
