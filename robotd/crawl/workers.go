package crawl

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/robotd/config"
)

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
	free  func() // lets another run begin, since the pages of this one are stored or its server keeps it waiting
	leave func() // gives up the place when the run's last fetch has ended
}

// take waits for a place, or returns an error when ctx ends.
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
	return &slot{w, sync.OnceFunc(func() { <-w.lively }), sync.OnceFunc(func() { <-w.places })}, nil
}

// end ends the run. It must be called once.
func (s *slot) end() {
	s.free()
	s.leave()
	s.pool.all.Done()
}

// wait blocks until every run has ended.
func (w *workerPool) wait() { w.all.Wait() }

// stage bounds how many pages are worked on at once, and how many wait for that. It counts what
// passes, so the status can show which stage holds up the others.
type stage struct {
	name    string
	waiting chan struct{} // one for each page in the queue
	workers chan struct{} // one for each page that is worked on
	passed  Meter
	busy    Meter        // nanoseconds of work
	last    atomic.Int64 // when something last passed, in nanoseconds since 1970; 0: never
}

// newStage returns a stage with as many workers and places in its queue as wanted.
func newStage(name string, want config.Module) *stage {
	workers := cmp.Or(want.Workers, runtime.GOMAXPROCS(0))
	return &stage{name: name, workers: make(chan struct{}, workers), waiting: make(chan struct{}, cmp.Or(want.Queue, 4*workers))}
}

// queue waits for a place in the queue.
func (s *stage) queue() { s.waiting <- struct{}{} }

// full reports whether the queue has no place.
func (s *stage) full() bool { return len(s.waiting) == cap(s.waiting) }

// room waits until the queue has a place, without taking it. It returns false if ctx ends before.
func (s *stage) room(ctx context.Context) bool {
	select {
	case s.waiting <- struct{}{}:
		<-s.waiting
		return true
	case <-ctx.Done():
		return false
	}
}

// work does the work of a page in the queue, when it is the page's turn.
func (s *stage) work(f func()) {
	s.workers <- struct{}{}
	<-s.waiting
	began := time.Now()
	f()
	s.count(began)
	<-s.workers
}

// count counts a turn of work from began until now.
func (s *stage) count(began time.Time) {
	s.passed.Add(1)
	s.last.Store(time.Now().UnixNano())
	s.busy.Add(int64(time.Since(began)))
}

// describe returns how busy the stage is. queue is the number of pages that wait.
func (s *stage) describe(queue int) Module {
	m := Module{
		Name: s.name, Queue: queue, Workers: cap(s.workers),
		Passed: s.passed.rate(), Busy: time.Duration(s.busy.Load()),
	}
	if n := m.Passed.PerMinute; n > 0 {
		m.Each = time.Duration(s.busy.PerMinute() / n)
	}
	return m
}

// stuck reports whether something waits in the queue and nothing has passed for longer than
// patience.
func (s *stage) stuck(queue int, since time.Time, patience time.Duration, now time.Time) bool {
	if last := time.Unix(0, s.last.Load()); last.After(since) {
		since = last
	}
	return queue > 0 && now.Sub(since) > patience
}

// Meter counts, and knows how much was counted within the last minute. It keeps only the counts of
// two clock minutes, since every host has some meters: of the earlier minute, the share counts that
// lies less than 60 s back. Its methods may be called concurrently.
type Meter struct {
	mu     sync.Mutex // guards all below
	total  int64
	minute int64 // number of the current minute, since 1970
	now    int64 // counted in it
	before int64 // counted in the one before
}

// Add counts n more.
func (m *Meter) Add(n int64) {
	t := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(t)
	m.total += n
	m.now += n
}

// Load returns all that was counted.
func (m *Meter) Load() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total
}

// PerMinute returns about how much was counted in the last minute.
func (m *Meter) PerMinute() int64 {
	t := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(t)
	into := t.Sub(time.Unix(60*m.minute, 0)).Seconds() / 60
	return m.now + int64(float64(m.before)*(1-into)+0.5)
}

func (m *Meter) turn(t time.Time) {
	switch minute := t.Unix() / 60; {
	case minute == m.minute:
	case minute == m.minute+1:
		m.minute, m.before, m.now = minute, m.now, 0
	default:
		m.minute, m.before, m.now = minute, 0, 0
	}
}

func (m *Meter) rate() Rate {
	return Rate{Total: m.Load(), PerMinute: m.PerMinute()}
}

// watchdog looks after the fetch workers (the statistics thread of the paper of 1997). If a fetch
// has made no progress for a while, it is cancelled, and its page is tried again later. If the
// worker does not return even then, it loses the turn, and another worker takes its place.
type watchdog struct {
	stall time.Duration

	mu      sync.Mutex // guards watched
	watched map[*watch]struct{}
}

// watch is a fetch that is watched.
type watch struct {
	turn     *turn
	began    time.Time
	moved    atomic.Int64 // last progress, in nanoseconds since 1970
	cancel   context.CancelCauseFunc
	canceled bool // guarded by watchdog.mu
	lost     bool // guarded by watchdog.mu
}

// errStalled is why the watchdog cancels a fetch.
var errStalled = errors.New("no progress")

func newWatchdog(stall time.Duration) *watchdog {
	return &watchdog{stall: stall, watched: make(map[*watch]struct{})}
}

// begin watches a turn's fetch, which must use the context. The returned function ends the watch.
// It reports whether the worker still has the turn.
func (d *watchdog) begin(ctx context.Context, t *turn) (context.Context, func() bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{turn: t, cancel: cancel, began: time.Now()}
	w.progress()
	t.watch = w
	d.mu.Lock()
	d.watched[w] = struct{}{}
	d.mu.Unlock()
	return ctx, func() bool {
		defer cancel(nil)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.watched, w)
		return !w.lost
	}
}

func (w *watch) progress() { w.moved.Store(time.Now().UnixNano()) }

// look cancels fetches without progress. It returns the turns whose fetches take long, and the
// turns that workers lose: they have not returned within half of the stall time after they were
// cancelled.
func (d *watchdog) look(now time.Time) (long, lost []*turn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.watched {
		if now.Sub(w.began) >= waitsLonger {
			long = append(long, w.turn)
		}
		still := now.Sub(time.Unix(0, w.moved.Load()))
		if still >= d.stall && !w.canceled {
			w.canceled = true
			w.cancel(errStalled)
		}
		if still >= d.stall+d.stall/2 && w.canceled {
			w.lost = true
			delete(d.watched, w)
			lost = append(lost, w.turn)
		}
	}
	return long, lost
}

// has reports whether the worker still has its turn.
func (d *watchdog) has(w *watch) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !w.lost
}
