package crawl

import (
	"context"
	"net/netip"
	"time"

	"sheaf/robotd/fetch"
)

// maxRun is the time after which a run asks for no further page.
const maxRun = time.Minute

// runs takes hosts from the gate and makes runs at their addresses.
type runs struct {
	parts    *Parts
	pipe     *Pipeline
	watchdog *watchdog
	pool     *workerPool
	backlog  *backlog
}

// dispatch takes runs from the gate until beginning ends, each for a worker of its own. Their
// requests are broken off if ctx ends.
func (r *runs) dispatch(ctx, beginning context.Context) {
	for r.backlog.wait(beginning) == nil {
		slot, err := r.pool.take(beginning)
		if err != nil {
			return
		}
		addr, name, err := r.parts.Manners.Gate.Next(beginning)
		if err != nil {
			slot.free()
			slot.leave()
			return
		}
		go func() {
			if r.run(ctx, beginning, addr, name, slot) {
				slot.leave()
			}
		}()
	}
}

// run is one run: pages of one host, one after another over one connection, which is closed before
// the address goes back to the gate. When beginning ends, the page in hand is the last one. It
// reports whether the worker still has its place.
func (r *runs) run(ctx, beginning context.Context, addr netip.Addr, name string, slot *slot) bool {
	var run fetch.Session
	most := r.parts.Pace.RunPages(name)
	if most > 1 {
		run = r.parts.Source.Run()
		defer run.Close()
	}
	began := time.Now()
	for pages := 1; ; pages++ {
		t := &turn{addr: addr, name: name, host: r.pipe.hosts.Get(name), slot: slot, run: run}
		asked := time.Now()
		watched, end := r.watchdog.begin(ctx, t)
		r.pipe.fetcher.visit(watched, t)
		r.pipe.fetching.count(asked)
		if !end() {
			return false
		}
		if t.fetched && pages < most && time.Since(began) < maxRun && r.mayGoOn(t) {
			t.stored = make(chan struct{})
			r.backlog.add()
			r.pipe.extracting.in <- t
			<-t.stored
			if t.out.More && beginning.Err() == nil && r.parts.Manners.Gate.IsOpen(time.Now()) {
				continue
			}
			t.fetched = false
		}
		if run != nil {
			run.Close()
		}
		if t.fetched {
			r.backlog.add()
			r.pipe.extracting.in <- t
		} else {
			slot.free()
			r.done(t)
		}
		return true
	}
}

// mayGoOn reports whether the run can have another page: the server keeps the connection, answers
// well, and asks for no delay between pages.
func (r *runs) mayGoOn(t *turn) bool {
	return t.err == nil && !Overloaded(t.resp.Status) && t.run.Live() && t.rules.CrawlDelay(r.parts.Manners.Agent) == 0
}

// waits lets another run begin beside one that waits for its server, unless it is this machine that
// is slow.
func (r *runs) waits(t *turn) {
	if !r.backlog.full() {
		t.slot.free()
	}
}

// lose takes a turn off a worker that hangs. Its page goes behind the others, and its address back
// to the gate. Nobody waits for the worker.
func (r *runs) lose(hung *turn) {
	t := &turn{addr: hung.addr, name: hung.name, host: hung.host}
	hung.slot.free()
	r.parts.Log.Error("fetch worker replaced: it hangs", "host", t.name, "address", t.addr)
	defer hung.slot.leave()
	defer r.done(t)
	h := t.host
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t.out.Trouble, t.out.NotBefore = true, r.pipe.patience.backOff(h, 0, time.Time{})
	t.out.More = !h.idle.Load()
	if h.gone || h.Front.Empty() {
		return
	}
	if err := h.Front.Retry(); err != nil {
		r.pipe.fail(t, err)
	}
}

// finish gives the address of a turn that was stored back to the gate, or the turn's run to its
// worker.
func (r *runs) finish(t *turn) {
	r.backlog.remove()
	if t.stored == nil {
		t.slot.free()
	}
	if t.resp != nil {
		r.parts.Manners.Admission.Spend(t.resp.ResponseBytes)
		if err := r.parts.Manners.Admission.Wrote(t.resp.ResponseBytes); err != nil { // may close the gate, before the address is back
			r.pipe.fail(t, err)
		}
	}
	if t.stored != nil {
		close(t.stored)
		return
	}
	r.done(t)
}

// done gives a turn's address back to the gate. A turn that failed for want of room is repeated,
// even if there is room again by now.
func (r *runs) done(t *turn) {
	delay := time.Duration(0)
	if h := t.host; h != nil {
		if t.failed && !h.idle.Load() {
			t.out.More = t.out.More || !h.Front.Empty()
		}
		if !t.out.More {
			r.pipe.hosts.setResting(h, false) // nothing is left to be tried
		}
		delay = h.crawlDelay(r.parts.Manners.Agent)
		if !h.idle.Load() {
			r.pipe.hosts.Place(h, delay)
		}
	}
	standing := r.parts.Manners.Gate.Done(t.addr, t.name, t.out)
	if err := r.parts.Manners.Admission.Tolerate(r.pipe.patience.remember(t.name, standing, delay)); err != nil {
		r.pipe.stop(err)
	}
	r.pipe.ended()
}
