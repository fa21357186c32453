package crawl

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/internal/wire"
	"sheaf/robotd/frontier"
)

// LookUps is how many hosts are looked up at once.
const LookUps = 32

// startAll takes hosts into the crawl, given with their seeds. Every host can take links before the
// first host is visited. Otherwise a link between two of these hosts would be taken for a link that
// leads outside.
func (c *Crawl) startAll(ctx context.Context, seeds map[string][]string) error {
	var fresh []*Host
	damaged := make(map[string]bool)
	spooled, err := c.spooled()
	if err != nil {
		return err
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(seeds)), func(name string) bool {
		return c.host(name) != nil || c.parts.List.List().Waits[name] // it may still be handed over
	})
	rooms, err := c.chooser.Rooms(names)
	if err != nil {
		return err
	}
	var mu sync.Mutex // guards fresh and damaged
	var entering errgroup.Group
	entering.SetLimit(runtime.GOMAXPROCS(0))
	for _, name := range names {
		entering.Go(func() error {
			h, mended, err := c.enter(ctx, name, seeds[name], spooled[name], rooms)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			fresh = append(fresh, h)
			if mended {
				damaged[name] = true
			}
			return nil
		})
	}
	if err := entering.Wait(); err != nil {
		return err
	}
	if err := c.relink(ctx, damaged); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(LookUps)
	for _, h := range fresh {
		g.Go(func() error { return c.start(ctx, h) })
	}
	return g.Wait()
}

// enter opens a host's queue, and mends it if it is damaged. The host can take links from now on,
// but is idle until start.
func (c *Crawl) enter(ctx context.Context, name string, seeds []string, spooled int, rooms map[string]float64) (h *Host, mended bool, err error) {
	front, err := c.parts.Records.Frontier.Host(name)
	if err != nil {
		return nil, false, err
	}
	if mended, err = c.mend(ctx, front, spooled); err != nil {
		return nil, false, err
	}
	list := c.parts.List.List()
	share := list.Shares[name]
	if _, err := front.Push(append(list.Entries(name, seeds), inShare(c.parts.Records.Watched.Entries(name), share)...)...); err != nil {
		return nil, false, err
	}
	later, err := c.chooser.Push(front, rooms)
	if err != nil {
		return nil, false, err
	}
	if err := c.parts.Records.Watched.Read(name); err != nil {
		return nil, false, err
	}
	h = NewHost(front, share, c.parts.Manners.Admission.Quiet(name))
	h.waits.Store(list.Waits[name])
	if !c.short { // the cycle has counted them
		h.Later.Store(int64(later))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hosts[name] = h
	return h, mended, nil
}

// inShare returns the entries that are in the given share of their host.
func inShare(entries []frontier.Entry, share wire.Share) []frontier.Entry {
	return slices.DeleteFunc(entries, func(e frontier.Entry) bool { return !share.Has(e.URL) })
}

// start looks up a host's address and lets the host be visited, unless it has to wait for another
// robot.
func (c *Crawl) start(ctx context.Context, h *Host) error {
	if h.waits.Load() {
		return nil
	}
	had := c.chooser.Servers.Get(h.Name).Addr
	addr, err := c.parts.Fetcher.ResolveAgain(ctx, h.Name, had)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		if h.place.unknown.Swap(true) {
			return nil // that is in the log already
		}
		c.parts.Log.WarnContext(ctx, "host has no address; it is looked up again", "host", h.Name, "every", c.lookAgain(), "err", err)
		return c.parts.Records.Journal.Comment("%s: %v", h.Name, err)
	}
	if had.IsValid() && addr.Addr() != had && !c.parts.Manners.Moves.May(h.Name, addr.Addr()) {
		addr = netip.AddrPortFrom(had, addr.Port()) // it moves when the manager knows
	}
	h.Locate(addr)
	c.place(h, 0)
	h.idle.Store(false) // from here on others ask for the address
	// The list may have changed since the crawl began. Whoever changes it stops the host again
	// after.
	if list := c.parts.List.List(); list.Waits[h.Name] || list.Known() && !list.Has(h.Name) {
		h.idle.Store(true)
		return nil
	}
	if !h.Front.Empty() {
		from, _ := c.parts.Manners.Admission.Planned(time.Now()) // a pause, a full disk or a lost lease may end at any time
		at := c.firstVisit(from)
		if quick := c.hours.Begin(h.Front, h.Home(), from); !c.short && quick.After(from) {
			at = quick
		}
		c.visitFrom(h, at)
	}
	return nil
}

// lookAgain returns the time between two look-ups of hosts that have no address.
func (c *Crawl) lookAgain() time.Duration {
	const often = 15 * time.Minute
	return min(often, c.parts.Settings.Network.Relearn)
}

// findLost looks up hosts that had no address again and again until ctx ends, since name servers
// fail too. A cycle does not wait for such hosts.
func (c *Crawl) findLost(ctx context.Context) error {
	ticker := time.NewTicker(c.lookAgain())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for _, h := range c.Hosts() {
			if h.place.unknown.Load() && ctx.Err() == nil {
				if err := c.start(ctx, h); err != nil {
					return err
				}
			}
		}
	}
}

// atOnce is how many hosts are visited at once when a crawl begins.
const atOnce = 200

// firstVisit returns the time of a host's first visit. It is zero for the first atOnce hosts. The
// others are spread over an interval, or all would come at the same moment of every interval.
func (c *Crawl) firstVisit(from time.Time) time.Time {
	n := c.begun.Add(1)
	if n <= atOnce {
		return time.Time{}
	}
	const golden = 0.6180339887498949 // spreads any number of hosts evenly
	_, part := math.Modf(float64(n) * golden)
	return from.Add(time.Duration(part * float64(c.parts.Settings.Interval)))
}

// push queues entries at a host of the crawl, and wakes the host if any are new.
func (c *Crawl) push(h *Host, entries []frontier.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	n, err := h.Push(entries...)
	if err != nil {
		return fmt.Errorf("%s: %w", h.Name, err)
	}
	if n > 0 {
		c.wake(h)
	}
	return nil
}
