package bandwidth

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// burst is for how long who was idle may exceed a rate.
const burst = 250 * time.Millisecond

// gate lets pieces through one after the other, at a rate.
type gate struct {
	turn chan struct{} // holds one element while somebody is at the gate

	mu   sync.Mutex // guards what follows
	free time.Time  // when the next piece may go
}

func newGate() gate { return gate{turn: make(chan struct{}, 1)} }

// enter waits for one's turn; leave must follow. Those who wait enter in the order in
// which they came.
func (g *gate) enter(ctx context.Context) error {
	select {
	case g.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *gate) leave() { <-g.turn }

// pass lets n bytes of who has entered through, at rate bytes a second. Only one at a
// time has its time set, so a change of the rate holds at once.
func (g *gate) pass(ctx context.Context, n, rate int64) error {
	now := time.Now()
	g.mu.Lock()
	if early := now.Add(-burst); g.free.Before(early) {
		g.free = early
	}
	at := g.free
	g.free = g.free.Add(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
	g.mu.Unlock()
	return sleep(ctx, at.Sub(now))
}

// idle reports whether the gate is as one that was never used.
func (g *gate) idle(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !now.Before(g.free.Add(burst))
}

// origin is what the transfers from one address share, of an account that is many people's.
type origin struct {
	gate
	flows int // guarded by Meter.mu
}

// fewOrigins is how many are kept without a look at whether they are of use.
const fewOrigins = 256

// origin finds or makes what an address shares. Meter.mu is held.
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
	o = &origin{gate: newGate()}
	a.origins[from] = o
	return o
}
