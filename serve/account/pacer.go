package account

import (
	"context"
	"net/netip"
	"slices"
	"sort"
	"sync"
	"time"

	"sheaf/internal/loop"
)

// burst is for how long a transfer may exceed the rate after being idle.
const burst = 250 * time.Millisecond

// pacer lets pieces pass one after the other, at a rate.
type pacer struct {
	turn chan struct{} // holds one element while a piece is at the pacer

	mu   sync.Mutex // guards what follows
	free time.Time  // when the next piece may pass
}

func newPacer() pacer { return pacer{turn: make(chan struct{}, 1)} }

// enter waits for the caller's turn; leave must follow. Callers enter in the order in which they
// came.
func (g *pacer) enter(ctx context.Context) error {
	select {
	case g.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *pacer) leave() { <-g.turn }

// pass waits until the caller, who has entered, may send n bytes at rate bytes a second. Only one
// piece is timed in advance, so a change of the rate takes effect at once.
func (g *pacer) pass(ctx context.Context, n, rate int64) error {
	now := time.Now()
	g.mu.Lock()
	if early := now.Add(-burst); g.free.Before(early) {
		g.free = early
	}
	at := g.free
	g.free = g.free.Add(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
	g.mu.Unlock()
	return loop.Sleep(ctx, at.Sub(now))
}

// idle reports whether the pacer is like a new one.
func (g *pacer) idle(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !now.Before(g.free.Add(burst))
}

// origin is shared by the transfers from one address, for an account that many people use.
type origin struct {
	pacer
	flows int // guarded by Meter.mu
}

// fewOrigins is the number of origins up to which idle ones are not removed.
const fewOrigins = 256

// origin returns the origin of an address, and creates it if missing. Meter.mu must be held.
func (a *account) origin(from netip.Prefix) *origin {
	o := a.origins[from]
	if o != nil {
		return o
	}
	if now := time.Now(); len(a.origins) >= a.sweep {
		for p, old := range a.origins {
			if old.flows == 0 && old.idle(now) {
				delete(a.origins, p)
			}
		}
		a.sweep = max(fewOrigins, 2*len(a.origins))
	}
	if a.origins == nil {
		a.origins = make(map[netip.Prefix]*origin)
	}
	o = &origin{pacer: newPacer()}
	a.origins[from] = o
	return o
}

// line shares a rate among accounts: see the package comment.
type line struct {
	mu     sync.Mutex  // guards what follows, and account.end
	queue  []*request  // by tag, then as they came
	now    float64     // the tag served last
	free   time.Time   // when the next piece may pass
	rate   int64       // bytes a second, as given by the last caller
	waking *time.Timer // calls serve at free; nil if nobody waits
}

// request is a piece that waits for its turn.
type request struct {
	tag   float64 // start of the piece in virtual time, in bytes
	bytes int64
	turn  chan struct{} // closed when the piece may pass
}

// wait waits for an account's turn to send n bytes over the line, at rate bytes a second.
func (l *line) wait(ctx context.Context, a *account, n, rate int64) error {
	l.mu.Lock()
	start := max(l.now, a.end)
	a.end = start + float64(n)
	r := &request{tag: start, bytes: n, turn: make(chan struct{})}
	at := sort.Search(len(l.queue), func(i int) bool { return l.queue[i].tag > start })
	l.queue = slices.Insert(l.queue, at, r)
	l.rate = rate
	l.serve()
	l.mu.Unlock()
	select {
	case <-r.turn:
		return nil
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		l.queue = slices.DeleteFunc(l.queue, func(q *request) bool { return q == r })
		return context.Cause(ctx)
	}
}

// serve lets all pieces pass that may pass now, and sets a timer for the next. l.mu must be held.
func (l *line) serve() {
	now := time.Now()
	if early := now.Add(-time.Second / perSecond); l.free.Before(early) {
		l.free = early
	}
	for len(l.queue) > 0 && !l.free.After(now) {
		r := l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		l.now = r.tag
		l.free = l.free.Add(time.Duration(float64(r.bytes) / float64(l.rate) * float64(time.Second)))
		close(r.turn)
	}
	if len(l.queue) == 0 || l.waking != nil {
		return
	}
	l.waking = time.AfterFunc(l.free.Sub(now), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.waking = nil
		l.serve()
	})
}
