package robotd

import (
	"context"
	"fmt"

	"sheaf/internal/wire"
	"sheaf/robotd/assignment"
	"sheaf/robotd/frontier"
)

// part gives what of a host is this robot's, and those of the seeds that are.
func (c *crawl) part(name string, seeds []string) (wire.Share, []frontier.Entry) {
	list := c.list.List()
	return list.Shares[name], list.Entries(name, seeds)
}

// takeTurns lets the host's address be visited at this robot's turns only, where others have the host
// too. The host's turn must be the caller's, or the host not be in the gate.
func (c *crawl) takeTurns(h *host) {
	share := *h.share.Load()
	if !share.Several() && !c.rota.has(h.name) {
		return
	}
	c.rota.set(c.gate.Slot(h.home()), h.name, turns{share, max(c.cfg.Interval, c.crawlDelay(h))})
}

// renew works by what a new list says of hosts that are in the crawl: their shares, and start URLs that came.
func (c *crawl) renew(ctx context.Context, old *assignment.List, hosts map[string][]string) error {
	before := old.Hosts()
	for name, seeds := range hosts {
		h := c.host(name)
		if h == nil || ctx.Err() != nil {
			continue
		}
		list := c.list.List()
		share, entries := list.Shares[name], list.New(name, seeds, before[name])
		if share != *h.share.Load() {
			entries = list.Entries(name, seeds)
		}
		h.share.Store(&share)
		if len(entries) == 0 {
			continue
		}
		h.mu.Lock()
		h.dirty.Store(true)
		n, err := h.front.Push(entries...)
		h.mu.Unlock()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if n > 0 {
			c.wake(h)
		}
	}
	return nil
}

// passOn tells the manager at once what was found of others' shares, who wait for it. What it does
// not take now stays until the next time.
func (r *Robot) passOn(ctx context.Context) {
	if len(r.list.List().Shares) == 0 {
		return
	}
	if err := r.found.Report(ctx, r.manager); err != nil && ctx.Err() == nil {
		r.log.Debug("URLs of others' shares not passed on yet", "error", err)
	}
}
