package robotd

import (
	"context"
	"maps"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/internal/wire"
	"sheaf/robotd/frontier"
)

func (r *Robot) assigned() map[string][]string {
	return r.list.Hosts()
}

// lookUps is how many questions are put to the name servers at once.
const lookUps = 32

// startAll takes those of the hosts into the crawl that are not in it yet. All of
// them can take links before the first is visited: a link that one host's page has
// to another would else be taken for one that leads outside.
func (c *crawl) startAll(ctx context.Context, seeds map[string][]string) error {
	c.mu.Lock()
	c.starting++
	c.mu.Unlock()
	err := c.startEach(ctx, seeds)
	c.mu.Lock()
	c.starting--
	c.mu.Unlock()
	c.endIfExhausted()
	return err
}

func (c *crawl) startEach(ctx context.Context, seeds map[string][]string) error {
	var fresh []*host
	damaged := make(map[string]bool)
	spooled, err := c.spooled()
	if err != nil {
		return err
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(seeds)), func(name string) bool { return c.host(name) != nil })
	rooms, err := c.rooms(names)
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
	g.SetLimit(lookUps)
	for _, h := range fresh {
		g.Go(func() error { return c.start(ctx, h) })
	}
	return g.Wait()
}

// enter opens a host's queue, mending it where it is damaged. The host takes links
// from now on, but rests until start.
func (c *crawl) enter(ctx context.Context, name string, seeds []string, spooled int, rooms map[string]float64) (h *host, mended bool, err error) {
	front, err := c.frontier.Host(name)
	if err != nil {
		return nil, false, err
	}
	mended = front.Damaged()
	if !mended {
		mended, err = c.align(front, spooled)
	}
	if mended && err == nil {
		err = c.mend(ctx, front)
	}
	if err != nil {
		return nil, false, err
	}
	share, entries := c.part(name, seeds)
	for _, e := range c.watches.entries(name) {
		if share.Has(e.URL) {
			entries = append(entries, e)
		}
	}
	if _, err := front.Push(entries...); err != nil {
		return nil, false, err
	}
	later, err := c.pushKnown(front, rooms)
	if err != nil {
		return nil, false, err
	}
	if err := c.attend(name); err != nil {
		return nil, false, err
	}
	h = &host{name: name, front: front, quiet: c.quiet[name], later: int64(later)}
	if c.short {
		h.later = 0 // the cycle has told of them
	}
	h.share.Store(&share)
	h.idle.Store(true)
	c.mu.Lock()
	c.hosts[name] = h
	c.mu.Unlock()
	return h, mended, nil
}

// start looks up a host's address and lets it be visited.
func (c *crawl) start(ctx context.Context, h *host) error {
	addr, err := c.fetcher.Resolve(ctx, h.name)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		if h.nowhere.Swap(true) {
			return nil // it has been told
		}
		c.log.Warn("host has no address; it is looked up again", "host", h.name, "every", c.lookAgain(), "error", err)
		return c.journal.Comment("%s: %v", h.name, err)
	}
	h.nowhere.Store(false)
	h.locate(addr)
	c.takeTurns(h)
	h.idle.Store(false) // from here on others ask for the address
	if !h.front.Empty() {
		from, _ := c.opening(time.Now())
		at := c.firstVisit(from)
		if quick := c.quickHour(h, from); !c.short && quick.After(from) {
			at = quick
		}
		c.gate.AddAt(h.home(), h.name, later(at, c.restraints.Get(h.name).Until))
	}
	return nil
}

// lookAgain is how long to wait between two questions for the addresses of hosts that have none.
func (c *crawl) lookAgain() time.Duration {
	const often = 15 * time.Minute
	return min(often, c.cfg.Network.Relearn)
}

// findLost asks again for the addresses of hosts that had none, until ctx ends: name servers fail too. A
// cycle does not wait for such hosts.
func (c *crawl) findLost(ctx context.Context) error {
	for {
		timer := time.NewTimer(c.lookAgain())
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		for _, h := range c.all() {
			if h.nowhere.Load() && ctx.Err() == nil {
				if err := c.start(ctx, h); err != nil {
					return err
				}
			}
		}
	}
}

// atOnce is how many hosts are visited at once when a crawl begins.
const atOnce = 200

// firstVisit spreads the first visits to many hosts over an interval: they would else
// all come at the same moment, and so in every interval thereafter.
func (c *crawl) firstVisit(from time.Time) time.Time {
	n := c.begun.Add(1)
	if n <= atOnce {
		return time.Time{}
	}
	const golden = 0.6180339887498949 // spreads any number of hosts evenly
	_, part := math.Modf(float64(n) * golden)
	return from.Add(time.Duration(part * float64(c.cfg.Interval)))
}

// align brings the host's queue into line with the segment that an earlier run left. It
// reports whether the queue has lost more than that can make up for; spooled is how
// many of the cycle's records wait in batches.
func (c *crawl) align(front *frontier.Host, spooled int) (lost bool, err error) {
	segment, found, err := c.batches.Resume(front.Name)
	if err != nil {
		return false, err
	}
	if front.Lost(len(found) + spooled) {
		return true, nil
	}
	if segment == "" {
		return false, nil
	}
	cells := make([]frontier.Cell, len(found))
	for i, cell := range found {
		cells[i] = frontier.Cell{URL: cell.URL, End: cell.Offset + cell.TLen + cell.BLen}
	}
	_, err = front.Align(segment, cells)
	return false, err
}

// spooled counts the cycle's records of each host that wait in batches.
func (c *crawl) spooled() (map[string]int, error) {
	batches, err := c.batches.Spool()
	if err != nil {
		return nil, err
	}
	c.Robot.mu.Lock()
	began := c.cycle.Began
	c.Robot.mu.Unlock()
	records := make(map[string]int)
	for _, b := range batches {
		m, err := wire.PeekManifest(b.Signed)
		if err != nil {
			return nil, err
		}
		for _, h := range m.Hosts {
			if !h.First.Before(began) {
				records[h.Name] += int(h.Records)
			}
		}
	}
	return records, nil
}
