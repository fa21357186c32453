package crawl

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/internal/loop"
)

// watchdog looks after the fetch workers (the statistics thread of the paper of 1997). If a fetch
// has made no progress for a while, it is cancelled, and its page is tried again later. If the
// worker does not return even then, its turn is taken off it and another worker takes its place.
type watchdog struct {
	stall time.Duration
	lose  func(*turn) // takes a turn off a worker that hangs
	waits func(*turn) // is called again and again for a turn whose fetch takes long

	mu      sync.Mutex // guards watched
	watched map[*watch]struct{}
}

// watch is a fetch that is watched.
type watch struct {
	turn     *turn
	began    time.Time
	moved    atomic.Int64 // last progress, in nanoseconds since 1970
	cancel   context.CancelCauseFunc
	canceled bool // guarded by watchdog.mu
	lost     bool // guarded by watchdog.mu
}

// errStalled is why the watchdog cancels a fetch.
var errStalled = errors.New("no progress")

func newWatchdog(stall time.Duration, lose, waits func(*turn)) *watchdog {
	return &watchdog{stall: stall, lose: lose, waits: waits, watched: make(map[*watch]struct{})}
}

// begin watches a turn's fetch, which must use the context. The returned function ends the watch.
// It reports whether the worker still has the turn.
func (d *watchdog) begin(ctx context.Context, t *turn) (context.Context, func() bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{turn: t, cancel: cancel, began: time.Now()}
	w.progress()
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

// run looks at the fetches again and again until ctx ends.
func (d *watchdog) run(ctx context.Context) {
	_ = loop.After(ctx, min(d.stall/4, waitsLonger/2), func(context.Context) error {
		for _, t := range d.look(time.Now()) {
			d.lose(t)
		}
		return nil
	}, nil)
}

// look cancels fetches without progress. It returns the turns of workers that have still not
// returned half of that time later.
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
