package crawl

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/robotd/fetch"
)

// The way of a page: dispatch takes its host's address from the gate, and run makes its turn there.
// Three stages follow, each a file whose first function calls down: fetch.go (visit), extract.go
// (extract) and store.go (store, and settle, which has the order). finish and done give the address
// back.

// Run begins visits until beginning ends, which must end with ctx. When it returns, every turn that
// has begun is stored. The requests of turns are broken off if ctx ends.
func (p *Pipeline) Run(ctx, beginning context.Context) {
	p.storing.start(func(t *turn) {
		p.storer.store(t)
		p.runs.finish(t)
	})
	p.extracting.start(func(t *turn) {
		p.extractor.extract(t)
		p.storing.in <- t
	})
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	var dog sync.WaitGroup
	dog.Go(func() { p.runs.watchdog.run(watching) })
	p.runs.dispatch(ctx, beginning)
	p.runs.pool.wait()
	p.extracting.finish()
	p.storing.finish()
	stop()
	dog.Wait()
}

// run makes one run: it gets pages of one host, one after another over one connection, and closes
// the connection before the address goes back to the gate. When beginning ends, the page in hand is
// the last one. It reports whether the worker still has its place.
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

// mayGoOn reports whether the run can have another page: the server keeps the connection, answers
// well, and asks for no delay between pages.
func (r *runs) mayGoOn(t *turn) bool {
	return t.err == nil && !Overloaded(t.resp.Status) && t.run.Live() && t.rules.CrawlDelay(r.parts.Manners.Agent) == 0
}

// waits lets another run begin beside one that waits for its server. It does not if this machine is
// the slow one.
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

// workerPool bounds the number of runs at once. A worker lives for one run, so ten thousand hosts
// do not need ten thousand stacks between their visits.
//
// A run takes some 20 KiB beside its page. If this machine or its line is slow, few runs should be
// under way, or many hosts that are due would all begin. Runs that wait for a slow server do not
// hold up the others: there may be as many as hosts to be visited at once.
type workerPool struct {
	places chan struct{} // one for each run, until its last fetch has ended
	lively chan struct{} // one for each run, until its last page is stored or its server keeps it waiting
	all    sync.WaitGroup
}

const (
	maxLively   = 256             // runs at once, without those that wait for their servers
	waitsLonger = 5 * time.Second // a run waits for its server when a page takes longer than this
)

func newWorkerPool(size int) *workerPool {
	return &workerPool{places: make(chan struct{}, size), lively: make(chan struct{}, min(size, maxLively))}
}

// slot is a run's place in the pool.
type slot struct {
	pool  *workerPool
	freed atomic.Bool
}

// take waits for a place.
func (w *workerPool) take(ctx context.Context) (*slot, error) {
	for i, places := range []chan struct{}{w.lively, w.places} {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			if i > 0 {
				<-w.lively
			}
			return nil, context.Cause(ctx)
		}
	}
	w.all.Add(1)
	return &slot{pool: w}, nil
}

// free lets another run begin, since the pages of this one are stored or its server keeps it
// waiting. It may be called more than once.
func (s *slot) free() {
	if s.freed.CompareAndSwap(false, true) {
		<-s.pool.lively
	}
}

// leave gives up the place when the run's last fetch has ended.
func (s *slot) leave() {
	<-s.pool.places
	s.pool.all.Done()
}

// wait returns when every run has left.
func (w *workerPool) wait() { w.all.Wait() }

// backlog counts the turns whose pages are fetched and not stored yet.
type backlog struct {
	turns   atomic.Int64
	shrinks chan struct{} // of capacity 1; has an element after a turn was stored
}

// maxBacklog is the number of turns that may wait for processor and disk before no more runs begin.
const maxBacklog = 16

func (b *backlog) full() bool { return b.turns.Load() >= maxBacklog }

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
	for b.full() {
		select {
		case <-b.shrinks:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
