package robotd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// crawl is one cycle's work: the hosts and the modules that their turns pass.
type crawl struct {
	*Robot
	stop   context.CancelCauseFunc
	round  round
	short  bool                // between two cycles, for watched pages: see visitWatched
	others map[string][]string // all assigned hosts, of a short one

	began      time.Time
	watchdog   *watchdog
	backlog    backlog
	begun      atomic.Int64 // hosts that have got their first place in the gate
	atRest     atomic.Int64 // hosts in the gate that rest after many failures: see backOff
	fetching   module
	extracting module
	storing    module

	mu       sync.Mutex // guards all below
	hosts    map[string]*host
	starting int // calls that may still bring hosts into the gate
}

// What ends a crawl that went well.
var (
	errExhausted = errors.New("every host is exhausted")
	errOver      = errors.New("the cycle's time is over")
)

// crawlHosts visits the assigned hosts until none has anything left.
func (r *Robot) crawlHosts(ctx context.Context) error {
	ctx, c, end := r.newCrawl(ctx, time.Time{})
	defer end()
	err := errors.Join(r.withChores(ctx, func(ctx context.Context) error { return c.run(ctx, c.assigned()) }), c.accountLeft())
	covered := c.coverage(time.Now())
	r.covered.Store(&covered)
	r.mu.Lock()
	number := r.cycle.Number
	r.mu.Unlock()
	r.progress.note(number, c.all())
	var pages, bytes int64
	for _, h := range c.all() {
		pages, bytes = pages+h.pages.Load(), bytes+h.bytes.Load()
	}
	c.leave()
	r.pages.Store(pages)
	r.bytes.Store(bytes)
	return errors.Join(err, r.servers.Save())
}

// newCrawl makes a crawl that is over when the cycle's time is, or at until where that is earlier and not zero.
// It is the robot's until end is called.
func (r *Robot) newCrawl(ctx context.Context, until time.Time) (_ context.Context, c *crawl, end func()) {
	ctx, stop := context.WithCancelCause(ctx)
	c = &crawl{Robot: r, stop: stop, round: r.thisRound(), hosts: make(map[string]*host), starting: 1}
	c.backlog.shrinks = make(chan struct{}, 1)
	c.storing = newModule("store", runtime.GOMAXPROCS(0), c.store)
	c.extracting = newModule("extract", runtime.GOMAXPROCS(0), c.extract)
	c.fetching = newModule("fetch", 0, nil)
	c.fetching.size, c.began = r.cfg.Concurrency, time.Now()
	r.setCrawl(c)
	over := func() bool { return true }
	if at := c.round.end; !at.IsZero() || !until.IsZero() {
		if at.IsZero() || !until.IsZero() && until.Before(at) {
			at = until
		}
		over = time.AfterFunc(time.Until(at), func() { stop(errOver) }).Stop
	}
	return ctx, c, func() {
		over()
		r.setCrawl(nil)
		stop(nil)
	}
}

// leave takes the crawl's hosts out of the gate.
func (c *crawl) leave() {
	for _, h := range c.all() {
		c.learnHour(h)
		c.gate.Remove(h.name)
	}
}

func (r *Robot) setCrawl(c *crawl) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.crawl = c
}

// run visits the hosts until none has anything left.
func (c *crawl) run(ctx context.Context, seeds map[string][]string) error {
	fetchers := newCrew(c.cfg.Concurrency)
	c.watchdog = newWatchdog(c.cfg.Page.Stall, func(t *turn) {
		c.lose(t)
		t.seat.leave() // on behalf of the worker that hangs: nobody waits for it
	}, c.waits)
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatching()
	go c.watchdog.run(watching)
	var dispatcher sync.WaitGroup
	dispatcher.Go(func() { c.dispatch(ctx, fetchers) })
	dispatcher.Go(func() {
		if err := c.findLost(ctx); err != nil {
			c.stop(err)
		}
	})
	if err := c.startAll(ctx, seeds); err != nil {
		c.stop(err)
	}
	c.mu.Lock()
	c.starting--
	c.mu.Unlock()
	c.endIfExhausted()
	// The queues are closed one after the other, so that every turn that has
	// begun is stored before the crawl ends.
	dispatcher.Wait()
	fetchers.wait()
	c.extracting.finish()
	c.storing.finish()
	err := context.Cause(ctx)
	if errors.Is(err, errOver) {
		c.log.Info("the cycle's time is over; what is left waits for the next")
	}
	if errors.Is(err, errExhausted) || errors.Is(err, errOver) {
		return nil
	}
	return err
}

// wake puts a host into the gate, unless it cannot be visited in this cycle. A
// host that is in the gate already keeps its place.
func (c *crawl) wake(h *host) {
	if !h.idle.Load() {
		c.gate.AddAt(h.home(), h.name, c.restraints.Get(h.name).Until)
	}
}

func (c *crawl) host(name string) *host {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hosts[name]
}

func (c *crawl) all() []*host {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.hosts))
}

// drop takes hosts out of the crawl. When it returns no page of them is stored any more.
func (c *crawl) drop(names []string) {
	for _, name := range names {
		h := c.host(name)
		if h == nil {
			continue
		}
		h.mu.Lock()
		h.gone = true
		h.mu.Unlock()
		h.idle.Store(true)
		c.setResting(h, false)
		c.gate.Remove(name)
		c.rota.remove(name)
		c.mu.Lock()
		delete(c.hosts, name)
		c.mu.Unlock()
	}
	c.endIfExhausted()
}

// done gives the address back to the gate. A turn that a full disk has cut short is to be
// had again.
func (c *crawl) done(t *turn) {
	if h := t.host; h != nil && c.room.Short() != "" && !h.idle.Load() {
		t.out.More = t.out.More || !h.front.Empty()
	}
	if t.host != nil && !t.out.More {
		c.setResting(t.host, false) // nothing is left to be tried
	}
	delay := c.crawlDelay(t.host)
	if t.host != nil && !t.host.idle.Load() {
		c.takeTurns(t.host)
	}
	standing := c.gate.Done(t.addr, t.name, t.out)
	if err := c.tolerate(c.remember(t.name, standing, delay)); err != nil {
		c.stop(err)
	}
	c.endIfExhausted()
}

func (c *crawl) endIfExhausted() {
	c.mu.Lock()
	starting := c.starting
	c.mu.Unlock()
	if starting == 0 && int64(c.gate.Len()) <= c.atRest.Load() {
		c.stop(errExhausted)
	}
}

// fail ends the crawl for want of a working disk, or lets it wait for want of room. The
// page in hand stays in hand.
func (c *crawl) fail(h *host, err error) {
	if err = c.tolerate(err); err == nil {
		return
	}
	c.stop(fmt.Errorf("%s: %w", h.name, err))
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
