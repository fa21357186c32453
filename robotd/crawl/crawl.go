// Package crawl visits the hosts of a cycle until none of them has anything left. Between two
// cycles it visits the hosts with a watched page that is due.
//
// # The way of a page
//
// The gate hands out a host whose address may be visited. Its page then passes three stages: fetch,
// extract and store. Only when the page is stored does the address go back to the gate, so a host
// has one page in hand at a time. By setting, a run fetches several pages over one connection.
// Crawl.visit is this way, and calls down: fetch.go with robots.go, extract.go, store.go. How much
// goes on at once is in workers.go, and what is known of a host in host.go.
package crawl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/robotd/client"
	"sheaf/robotd/config"
	"sheaf/robotd/polite"
	"sheaf/robotd/revisit"
)

// Crawl visits hosts until no host has anything left, or its time is over. Its methods may be
// called concurrently.
type Crawl struct {
	parts   *Parts
	fail    context.CancelCauseFunc // breaks off the visits
	short   bool                    // see Crawler.VisitWatched
	resting map[string][]string     // assigned hosts that are not in this crawl, with their seeds
	hours   *revisit.Hours
	chooser *revisit.Chooser
	began   time.Time
	begun   atomic.Int64 // hosts that got their first place in the gate

	beginning context.Context         // ends when no visit may begin any more
	end       context.CancelCauseFunc // ends beginning

	pool                          *workerPool
	watchdog                      *watchdog
	fetching, extracting, storing *stage

	failing atomic.Int64 // hosts in the gate that rest because they fail

	mu       sync.Mutex // guards all below
	starting int        // calls that may still bring hosts into the gate
	hosts    map[string]*Host
}

func newCrawl(ctx context.Context, parts *Parts, round revisit.Round, fail context.CancelCauseFunc, resting map[string][]string) *Crawl {
	set, rec := parts.Settings, &parts.Records
	beginning, end := context.WithCancelCause(ctx)
	return &Crawl{
		parts: parts, fail: fail, beginning: beginning, end: end, short: resting != nil, resting: resting, starting: 1, began: time.Now(),
		hosts:      make(map[string]*Host),
		hours:      &revisit.Hours{Servers: parts.Servers, Plan: parts.Plan, Pace: parts.Pace, Round: round, Use: set.Revisit.QuickHours},
		chooser:    &revisit.Chooser{Round: round, Settings: set.Revisit, Pace: parts.Pace, Servers: parts.Servers, Frontier: rec.Frontier, Watched: rec.Watched.Covers},
		pool:       newWorkerPool(set.Concurrency),
		watchdog:   newWatchdog(set.Page.Stall),
		fetching:   newStage("fetch", config.Module{Workers: set.Concurrency}),
		extracting: newStage("extract", set.Modules.Extract),
		storing:    newStage("store", set.Modules.Store),
	}
}

// Short reports whether this is a crawl between two cycles.
func (c *Crawl) Short() bool { return c.short }

// Hosts returns the hosts of the crawl, in any order.
func (c *Crawl) Hosts() []*Host {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.hosts))
}

// host returns a host of the crawl; nil: it is not in the crawl.
func (c *Crawl) host(name string) *Host {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hosts[name]
}

// visitFrom lets a host be visited, neither before at nor before the time that Restraints keeps for
// the host. The host must have an address and not be idle.
func (c *Crawl) visitFrom(h *Host, at time.Time) {
	if until := c.parts.Manners.Restraints.Get(h.Name).Until; at.Before(until) {
		at = until
	}
	c.parts.Manners.Gate.AddAt(h.Home(), h.Name, at)
}

// wake puts a host into the gate because pages were queued, unless it is idle. A host that is in
// the gate keeps its place.
func (c *Crawl) wake(h *Host) {
	if !h.idle.Load() {
		c.visitFrom(h, time.Time{})
	}
}

// place lets the host's address be visited at the interval that holds for the host, and only at
// this robot's turns if other robots visit the host too. The caller must have the host's turn, or
// the host must not be in the gate.
func (c *Crawl) place(h *Host, crawlDelay time.Duration) {
	man, list := &c.parts.Manners, c.parts.List
	man.Addresses.Set(man.Gate.Slot(h.Home()), h.Name, polite.HostTerms{
		Interval: list.Interval(h.Name), Shortest: list.Shortest(h.Name), CrawlDelay: crawlDelay, Share: h.Share(),
	})
}

// setResting notes whether a host rests because it fails.
func (c *Crawl) setResting(h *Host, rests bool) {
	switch {
	case h.rest.rests.Swap(rests) == rests:
	case rests:
		c.failing.Add(1)
	default:
		c.failing.Add(-1)
	}
}

// Run visits the hosts, given with their seeds, until no host has anything left or the crawl's time
// is over. The visits that have begun by then are finished: a request that is broken off may still
// reach the server, and nobody would know from when on to count the interval. Only if ctx ends,
// these visits are broken off, and Run returns the cause.
func (c *Crawl) Run(ctx context.Context, seeds map[string][]string) error {
	defer c.end(nil)
	defer context.AfterFunc(ctx, func() { c.end(context.Cause(ctx)) })()
	var running sync.WaitGroup
	running.Go(func() { c.visitHosts(ctx) })
	running.Go(func() {
		if err := c.findLost(c.beginning); err != nil {
			c.fail(err)
		}
	})
	if _, err := c.Start(c.beginning, seeds); err != nil {
		c.fail(err)
	}
	c.started(-1)
	running.Wait()
	if errors.Is(context.Cause(c.beginning), errOver) {
		c.parts.Log.InfoContext(ctx, "the cycle's time is over; what is left waits for the next")
	}
	return context.Cause(ctx)
}

// Start takes hosts into the crawl, unless they are in it already. It reports whether it took them:
// a crawl that is ending takes no hosts.
func (c *Crawl) Start(ctx context.Context, seeds map[string][]string) (taken bool, err error) {
	if !c.started(1) {
		c.started(-1)
		return false, nil
	}
	defer c.started(-1)
	return true, c.startAll(ctx, seeds)
}

// started adds n to the number of calls that may still bring hosts into the gate. While there are
// such calls, the crawl does not end for want of hosts. It reports whether the crawl goes on.
func (c *Crawl) started(n int) (goesOn bool) {
	c.mu.Lock()
	c.starting += n
	goesOn = c.beginning.Err() == nil
	c.mu.Unlock()
	c.endIfExhausted()
	return goesOn
}

// Crowded returns how many addresses wait for a free worker although their interval has passed: the
// robot's width or its line keeps it from visiting them.
func (c *Crawl) Crowded(now time.Time) int {
	return c.parts.Manners.Gate.Late(now, c.parts.Settings.Interval/4)
}

// IsStarting reports whether some hosts may not be in the crawl yet.
func (c *Crawl) IsStarting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.starting > 0
}

// endIfExhausted ends the crawl if no host has anything left, apart from hosts that rest: a cycle
// does not wait for hosts that rest.
func (c *Crawl) endIfExhausted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.starting == 0 && int64(c.parts.Manners.Gate.Len()) <= c.failing.Load() {
		c.end(errExhausted)
	}
}

// Stop ends the visits to hosts, until Renew begins them again. When it returns, no such host is
// being visited, and the pages in hand are stored. It fails only if ctx ends.
func (c *Crawl) Stop(ctx context.Context, names []string) error {
	c.started(1) // the crawl does not end meanwhile
	defer c.started(-1)
	var running []<-chan struct{}
	for _, name := range names {
		h := c.host(name)
		if h == nil {
			continue
		}
		h.idle.Store(true)
		c.setResting(h, false)
		if ended := c.parts.Manners.Gate.Remove(name); ended != nil {
			running = append(running, ended)
		}
	}
	for _, ended := range running {
		select {
		case <-ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for _, name := range names {
		c.parts.Manners.Addresses.Remove(name)
	}
	return nil
}

// Drop removes hosts that were stopped. When it returns, no page of them is stored any more.
func (c *Crawl) Drop(names []string) {
	for _, name := range names {
		h := c.host(name)
		if h == nil {
			continue
		}
		h.mu.Lock()
		h.gone = true
		h.mu.Unlock()
		c.mu.Lock()
		delete(c.hosts, name)
		c.mu.Unlock()
	}
	c.endIfExhausted()
}

// leave takes the hosts out of the gate, and notes how fast their servers were.
func (c *Crawl) leave() {
	for _, h := range c.Hosts() {
		if !h.idle.Load() {
			c.hours.End(h.Name, h.Home(), &h.memory.speed)
		}
		c.parts.Manners.Gate.Remove(h.Name)
	}
}

// Renew brings the hosts of the crawl into line with the current list: their shares, seeds that the
// old list lacks, and whether they have to wait. Hosts that now wait must have been stopped.
func (c *Crawl) Renew(ctx context.Context, old *client.List) error {
	c.started(1) // the crawl does not end meanwhile
	defer c.started(-1)
	list, before := c.parts.List.List(), old.Hosts()
	for name, seeds := range list.Hosts() {
		h := c.host(name)
		if h == nil || ctx.Err() != nil {
			continue
		}
		share, entries := list.Shares[name], list.New(name, seeds, before[name])
		if share != h.Share() {
			entries = list.Entries(name, seeds)
		}
		h.share.Store(&share)
		if err := c.push(h, entries); err != nil {
			return err
		}
		if waits := list.Waits[name]; h.waits.Swap(waits) && !waits {
			if err := c.start(ctx, h); err != nil {
				return err
			}
		}
	}
	return nil
}

// PushWatched queues the watched pages that the cycle has not seen.
func (c *Crawl) PushWatched() error {
	for _, h := range c.Hosts() {
		if err := c.push(h, inShare(c.parts.Records.Watched.Entries(h.Name), h.Share())); err != nil {
			return err
		}
	}
	return nil
}

// checkpoint makes what was collected durable.
func (c *Crawl) checkpoint(ctx context.Context) error {
	for _, h := range c.Hosts() {
		if ctx.Err() != nil {
			return nil
		}
		if err := h.Checkpoint(func() error { return c.parts.Records.Batches.Sync(h.Name) }); err != nil {
			return fmt.Errorf("checkpoint of %s: %w", h.Name, err)
		}
	}
	return nil
}
