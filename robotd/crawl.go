package robotd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/internal/wire"
	"sheaf/robotd/frontier"
)

// crawl is one cycle's work: the hosts and the modules that their turns pass.
type crawl struct {
	*Robot
	stop  context.CancelCauseFunc
	round round

	began      time.Time
	watchdog   *watchdog
	backlog    backlog
	begun      atomic.Int64 // hosts that have got their first place in the gate
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
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c := &crawl{Robot: r, stop: stop, round: r.thisRound(), hosts: make(map[string]*host), starting: 1}
	c.backlog.shrinks = make(chan struct{}, 1)
	c.storing = newModule("store", runtime.GOMAXPROCS(0), c.store)
	c.extracting = newModule("extract", runtime.GOMAXPROCS(0), c.extract)
	c.fetching = newModule("fetch", 0, nil)
	c.fetching.size, c.began = r.cfg.Concurrency, time.Now()
	r.setCrawl(c)
	defer r.setCrawl(nil)
	if !c.round.end.IsZero() {
		over := time.AfterFunc(time.Until(c.round.end), func() { stop(errOver) })
		defer over.Stop()
	}
	err := errors.Join(r.withChores(ctx, c.run), c.accountLeft())
	covered := c.coverage(time.Now())
	r.covered.Store(&covered)
	r.mu.Lock()
	number := r.cycle.Number
	r.mu.Unlock()
	r.progress.note(number, c.all())
	var pages, bytes int64
	for _, h := range c.all() {
		c.learnHour(h)
		r.gate.Remove(h.name)
		pages, bytes = pages+h.pages.Load(), bytes+h.bytes.Load()
	}
	r.pages.Store(pages)
	r.bytes.Store(bytes)
	return errors.Join(err, r.servers.Save())
}

func (r *Robot) setCrawl(c *crawl) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.crawl = c
}

func (c *crawl) run(ctx context.Context) error {
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
	if err := c.startAll(ctx, c.assigned()); err != nil {
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

func (c *crawl) assigned() map[string][]string {
	c.Robot.mu.Lock()
	defer c.Robot.mu.Unlock()
	return c.list.hosts()
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
	h = &host{name: name, front: front, quiet: c.quiet[name], later: int64(later)}
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
		c.log.Warn("host left out of this cycle", "host", h.name, "error", err)
		return c.journal.comment("%s: %v", h.name, err)
	}
	h.locate(addr)
	c.takeTurns(h)
	h.idle.Store(false) // from here on others ask for the address
	if !h.front.Empty() {
		from, _ := c.opening(time.Now())
		at := c.firstVisit(from)
		if quick := c.quickHour(h, from); quick.After(from) {
			at = quick
		}
		c.gate.AddAt(h.home(), h.name, later(at, c.restraints.Get(h.name).Until))
	}
	return nil
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
	if starting == 0 && c.gate.Len() == 0 {
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
