package robotd

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// watchdog looks after the fetch workers (paper of 1997, the collector's statistics
// thread): one that has had no byte for a while loses its page, which is tried again
// later. First its fetch is cancelled; a worker that does not return even then is
// given up, and another takes its place.
type watchdog struct {
	stall time.Duration
	lose  func(*turn) // takes the turn off a worker that hangs, and starts another worker
	waits func(*turn) // is told, time and again, of turns whose fetch takes long

	mu      sync.Mutex // guards watched
	watched map[*watch]struct{}
}

// watch is one fetch under the watchdog's eyes.
type watch struct {
	turn     *turn
	began    time.Time
	moved    atomic.Int64 // nanoseconds of the clock, when something last happened
	cancel   context.CancelCauseFunc
	canceled bool // guarded by watchdog.mu, as is lost
	lost     bool
}

// errStalled is why the watchdog cancels a fetch.
var errStalled = errors.New("no progress")

func newWatchdog(stall time.Duration, lose, waits func(*turn)) *watchdog {
	return &watchdog{stall: stall, lose: lose, waits: waits, watched: make(map[*watch]struct{})}
}

// begin watches a turn's fetch, which must use the context. The returned function ends
// the watch; it reports whether the worker still has the turn.
func (d *watchdog) begin(ctx context.Context, t *turn) (context.Context, func() bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{turn: t, cancel: cancel, began: time.Now()}
	w.moved.Store(w.began.UnixNano())
	t.watch = w
	d.mu.Lock()
	d.watched[w] = struct{}{}
	d.mu.Unlock()
	return ctx, func() bool {
		defer cancel(nil)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.watched, w)
		return !w.lost
	}
}

func (w *watch) progress() { w.moved.Store(time.Now().UnixNano()) }

// run looks around until ctx ends.
func (d *watchdog) run(ctx context.Context) {
	for sleep(ctx, min(d.stall/4, waitsLonger/2)) == nil {
		for _, t := range d.look(time.Now()) {
			d.lose(t)
		}
	}
}

// look cancels what stands still and returns the turns of workers that did not
// return within half the time again.
func (d *watchdog) look(now time.Time) (lost []*turn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.watched {
		if now.Sub(w.began) >= waitsLonger {
			d.waits(w.turn)
		}
		still := now.Sub(time.Unix(0, w.moved.Load()))
		if still >= d.stall && !w.canceled {
			w.canceled = true
			w.cancel(errStalled)
		}
		if still >= d.stall+d.stall/2 && w.canceled {
			w.lost = true
			delete(d.watched, w)
			lost = append(lost, w.turn)
		}
	}
	return lost
}

// has reports whether the worker still has its turn.
func (d *watchdog) has(w *watch) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !w.lost
}
