package robotd

import (
	"fmt"
	"time"

	"sheaf/robotd/polite"
)

// whyWaits says in a few words why a host's next visit is not made now. p is its place in the gate, which
// a host without an address does not have.
func (c *crawl) whyWaits(h *host, p *polite.Place, now time.Time) string {
	why := h.waits.Load()
	switch {
	case p == nil:
		return "no address"
	case h.rests.Load() && why != nil:
		return *why
	case !c.gate.IsOpen(now):
		return c.whyClosed(now)
	case !p.At.After(now):
		return "no worker free"
	case p.Asked.After(now) && why != nil:
		return *why
	case p.Asked.After(now):
		return "Crawl-delay" // or what an earlier run left
	case p.Interval > c.cfg.Interval:
		return fmt.Sprintf("slowed to %s", p.Interval.Round(time.Second))
	}
	return fmt.Sprintf("interval %s", p.Interval.Round(time.Millisecond))
}

// whyClosed says in a few words why nothing is visited now.
func (r *Robot) whyClosed(now time.Time) string {
	r.mu.Lock()
	held := !r.held.IsZero()
	r.mu.Unlock()
	switch {
	case held:
		return "held by the manager"
	case r.paused():
		return "paused"
	case r.room.Short() != "":
		return "no room on the disk"
	case r.budget.Next(now).After(now):
		return "limit of bytes"
	}
	return "window"
}
