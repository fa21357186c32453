package robotd

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"sheaf/robotd/fetch"
	"sheaf/robotd/polite"
)

// turn is one page of a run at an address, on its way through the modules.
type turn struct {
	addr netip.Addr
	name string
	host *host // nil: dropped meanwhile
	out  polite.Outcome
	page

	seat   *seat         // of the run
	run    *fetch.Run    // over which further pages may come; nil: none
	stored chan struct{} // closed when the page is stored, where the run may go on; nil: the turn ends the run
	watch  *watch
}

// backlog is the turns whose pages are fetched and not yet stored.
type backlog struct {
	turns   atomic.Int64
	shrinks chan struct{}
}

// maxBacklog turns wait for processor and disk at most before no more runs begin.
const maxBacklog = 16

func (b *backlog) add() { b.turns.Add(1) }

func (b *backlog) remove() {
	b.turns.Add(-1)
	select {
	case b.shrinks <- struct{}{}:
	default:
	}
}

// wait returns when another run may begin, or ctx ends.
func (b *backlog) wait(ctx context.Context) error {
	for b.turns.Load() >= maxBacklog {
		select {
		case <-b.shrinks:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// dispatch takes runs from the gate until ctx ends, each for a worker of its own.
func (c *crawl) dispatch(ctx context.Context, workers *crew) {
	for c.backlog.wait(ctx) == nil {
		seat, err := workers.join(ctx)
		if err != nil {
			return
		}
		addr, name, err := c.gate.Next(ctx)
		if err != nil {
			seat.free()
			seat.leave()
			return
		}
		go func() {
			if c.runAt(ctx, addr, name, seat) {
				seat.leave()
			}
		}()
	}
}

// runAt is one run: pages of one host, one after another over one connection, which is
// closed before the address goes back to the gate. It reports whether the worker
// is still wanted.
func (c *crawl) runAt(ctx context.Context, addr netip.Addr, name string, seat *seat) bool {
	var run *fetch.Run
	if c.cfg.Run.Pages > 1 {
		run = c.fetcher.Run()
		defer run.Close()
	}
	began := time.Now()
	for pages := 1; ; pages++ {
		t := &turn{addr: addr, name: name, host: c.host(name), seat: seat, run: run}
		asked := time.Now()
		watched, end := c.watchdog.begin(ctx, t)
		c.fetch(watched, t)
		c.fetching.count(asked)
		if !end() {
			return false
		}
		if t.fetched && pages < c.cfg.Run.Pages && time.Since(began) < c.cfg.Run.Time && c.mayGoOn(t) {
			t.stored = make(chan struct{})
			c.backlog.add()
			c.extracting.in <- t
			<-t.stored
			if t.out.More && ctx.Err() == nil && c.gate.IsOpen(time.Now()) {
				continue
			}
			t.fetched = false
		}
		if run != nil {
			run.Close()
		}
		if t.fetched {
			c.backlog.add()
			c.extracting.in <- t
		} else {
			seat.free()
			c.done(t)
		}
		return true
	}
}

// mayGoOn reports whether the run can have another page: the server keeps the
// connection, answers well, and asks for no delay between pages.
func (c *crawl) mayGoOn(t *turn) bool {
	return t.err == nil && !overloaded(t.resp.Status) && t.run.Live() && t.rules.CrawlDelay(c.cfg.UserAgent(Version)) == 0
}

// get fetches for a turn. A fetch that the watchdog cancelled failed for want of
// progress; one whose turn is lost is nobody's any more.
func (c *crawl) get(ctx context.Context, t *turn, req fetch.Request) (resp *fetch.Response, err error) {
	req.Progress = t.watch.progress
	if t.run != nil {
		resp, err = t.run.Get(ctx, req)
	} else {
		resp, err = c.fetcher.Get(ctx, req)
	}
	if !c.watchdog.has(t.watch) {
		if resp != nil {
			err = errors.Join(err, resp.Close())
		}
		return nil, &fetch.Error{Kind: fetch.Canceled, URL: req.URL, Err: errors.Join(errStalled, err)}
	}
	if fetch.KindOf(err) == fetch.Canceled && errors.Is(context.Cause(ctx), errStalled) {
		err = &fetch.Error{Kind: fetch.TooSlow, URL: req.URL, Err: errStalled}
	}
	return resp, err
}

// waits lets another run begin in place of one that waits for its server, unless it is this
// machine that is slow.
func (c *crawl) waits(t *turn) {
	if c.backlog.turns.Load() < maxBacklog {
		t.seat.free()
	}
}

// lose takes a turn off a worker that hangs: its page goes behind the others, and its
// address back to the gate.
func (c *crawl) lose(hung *turn) {
	t := &turn{addr: hung.addr, name: hung.name, host: hung.host}
	hung.seat.free()
	c.log.Error("fetch worker replaced: it hangs", "host", t.name, "address", t.addr)
	defer c.done(t)
	h := t.host
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t.out.Trouble, t.out.NotBefore = true, c.backOff(h, 0, time.Time{})
	t.out.More = !h.idle.Load()
	if h.gone || h.front.Empty() {
		return
	}
	if err := h.front.Retry(); err != nil {
		c.fail(h, err)
	}
}

// finish gives a stored turn's address back to the gate, or its run to the worker.
func (c *crawl) finish(t *turn) {
	c.backlog.remove()
	if t.stored == nil {
		t.seat.free()
	}
	if t.resp != nil {
		c.spend(t.resp.ResponseBytes)
		if err := c.room.Wrote(t.resp.ResponseBytes); err != nil {
			c.fail(t.host, err)
		}
		if c.room.Short() != "" { // before the address is anybody's again
			c.setGate()
		}
	}
	if t.stored != nil {
		close(t.stored)
		return
	}
	c.done(t)
}
