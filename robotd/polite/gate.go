package polite

import (
	"container/heap"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"sheaf/internal/loop"
)

// GateOptions determine the time between two runs. A run is a visit to a host; see Next.
type GateOptions struct {
	// Interval is the time between the end of a run at an address and the start of the next.
	Interval time.Duration
	// Min and Max are the limits of the interval when it adapts to the server's speed. A Min above
	// Interval keeps the interval from being shortened, a Max below Interval from being lengthened.
	Min, Max time.Duration
	// Addresses has the intervals that hold in place of Interval and Min, and the turns of other
	// robots. Nil means that there are none.
	Addresses *Addresses
	// Group maps an address to the one that stands for its group. Nil means that each address
	// counts for itself.
	Group func(netip.Addr) netip.Addr
	// Recall returns what was saved for an address or group before the start: a time before which
	// not to visit, and an interval longer than Interval. Nil means that nothing is saved. It must
	// not call the gate.
	Recall func(netip.Addr) (until time.Time, interval time.Duration)
}

// Gate decides which host may be visited next, and when. It may be used concurrently. It promises:
// after Next has returned an address, it does not return that address again before Done was called
// for it and the interval has passed since.
type Gate struct {
	opt    GateOptions
	leader chan struct{} // held by the one caller of Next that watches the heap
	wake   chan struct{} // tells that caller that the heap's top or the opening has changed

	mu    sync.Mutex // guards all below
	from  time.Time  // no run starts before
	until time.Time  // no run starts from this time on; zero: no end
	slots map[netip.Addr]*slot
	paces *lru.Cache[netip.Addr, pace] // of addresses without a slot, so that they are not learned anew
	due   queue[*slot]                 // slots without a run
	hosts map[string]*visit
	ends  map[string]chan struct{} // by host that was removed during a run: closed when the run has ended
}

// slot is one address, or one group of addresses, with the hosts on it.
type slot struct {
	addr    netip.Addr
	rest    time.Time // no run before this time: end of the last run plus the interval
	pace    pace
	waiting queue[*visit]
	index   int // in the heap; -1 during a run
}

// visit is a host's place in the queue.
type visit struct {
	host  string
	addr  netip.Addr // address to connect to: the slot's, or one of its group
	at    time.Time  // no run before this time
	slot  *slot
	index int // in its slot's heap; -1 during its run

	movesTo netip.Addr // during a run: new address from a call of Add
}

// Outcome is the result of a run.
type Outcome struct {
	More      bool          // the host has more to fetch and stays in the gate
	Delay     time.Duration // the host's Crawl-delay: time before the host's own next run
	NotBefore time.Time     // the host's Retry-After or back-off
	Rest      time.Duration // rest for the whole address, if longer than the interval: a multiple of the time that the run took
	Wait      time.Duration // time to the first byte of the answer; zero if no request was sent
	Page      bool          // the answer is a page, whose Wait shows how fast the server is
	Trouble   bool          // the server is overloaded or does not answer
}

// Standing says when a host and its address may be visited again after a run.
type Standing struct {
	Slot     netip.Addr    // the address, or the one that represents its group
	Rest     time.Time     // no visit to the slot before this time
	Interval time.Duration // current interval of the slot
	Host     time.Time     // no visit to the host before this time
}

// mostPaces is how many paces are remembered of addresses without a host in the gate.
const mostPaces = 1 << 14

// NewGate returns an empty gate that is open.
func NewGate(opt GateOptions) *Gate {
	paces, _ := lru.New[netip.Addr, pace](mostPaces) // fails only without room
	return &Gate{
		opt:    opt,
		paces:  paces,
		leader: make(chan struct{}, 1),
		wake:   make(chan struct{}, 1),
		slots:  make(map[netip.Addr]*slot),
		hosts:  make(map[string]*visit),
		ends:   make(map[string]chan struct{}),
	}
}

// Add puts a host into the queue of its address. A host that is in the gate already keeps its
// place, or moves if its address has changed.
func (g *Gate) Add(addr netip.Addr, host string) {
	g.AddAt(addr, host, time.Time{})
}

// AddAt is Add for a host that must not be visited before t. A host that is in the gate already
// keeps its time.
func (g *Gate) AddAt(addr netip.Addr, host string, t time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v, known := g.hosts[host]
	switch {
	case !known:
		v = &visit{host: host, at: t}
		g.hosts[host] = v
		g.enqueue(v, addr)
	case v.index < 0:
		v.movesTo = addr
	case v.addr != addr:
		old := v.slot
		heap.Remove(&old.waiting, v.index)
		g.settle(old)
		g.enqueue(v, addr)
	}
}

// Remove removes a host from the gate. If a run of the host is under way, the run must still end
// with Done, which closes ended; otherwise ended is nil.
func (g *Gate) Remove(host string) (ended <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v, ok := g.hosts[host]
	if !ok {
		return g.ends[host]
	}
	delete(g.hosts, host)
	if v.index >= 0 {
		heap.Remove(&v.slot.waiting, v.index)
		g.settle(v.slot)
		return nil
	}
	if g.ends[host] == nil {
		g.ends[host] = make(chan struct{})
	}
	return g.ends[host]
}

// Next waits until a host may be visited, and returns the host and the address to connect to.
// Nobody else gets the address until Done is called with both.
func (g *Gate) Next(ctx context.Context) (netip.Addr, string, error) {
	// One caller watches the heap, and the others wait to do so. Otherwise a thousand workers would
	// wake up for one address.
	select {
	case g.leader <- struct{}{}:
		defer func() { <-g.leader }()
	case <-ctx.Done():
		return netip.Addr{}, "", context.Cause(ctx)
	}
	for {
		if err := ctx.Err(); err != nil {
			return netip.Addr{}, "", context.Cause(ctx)
		}
		v, wait := g.take(time.Now())
		if v != nil {
			return v.addr, v.host, nil
		}
		if !loop.Wait(ctx, wait, g.wake) {
			return netip.Addr{}, "", context.Cause(ctx)
		}
	}
}

// take removes the first host that is due, or returns how long to wait for one, unless something
// changes before.
func (g *Gate) take(now time.Time) (*visit, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.due) > 0 {
		s := g.due[0]
		at := s.at()
		if len(s.waiting) > 0 && at.Before(g.from) {
			at = g.from
		}
		if wait := at.Sub(now); wait > 0 {
			return nil, wait
		}
		if len(s.waiting) > 0 && !g.until.IsZero() && !now.Before(g.until) {
			return nil, Never // until Open changes it
		}
		if g.opt.Addresses != nil && len(s.waiting) > 0 {
			if from := g.opt.Addresses.Allow(s.addr, now); from.After(now) {
				s.rest = from
				heap.Fix(&g.due, 0)
				continue
			}
		}
		heap.Pop(&g.due)
		if len(s.waiting) == 0 { // the rest is over and no host is left
			delete(g.slots, s.addr)
			g.paces.Add(s.addr, s.pace)
			continue
		}
		return heap.Pop(&s.waiting).(*visit), 0
	}
	return nil, Never
}

// Done ends a run that Next has begun. It panics if there is no such run, since the gate could not
// keep its promise then.
func (g *Gate) Done(addr netip.Addr, host string, out Outcome) Standing {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ok := g.slots[g.Slot(addr)]
	if !ok || s.index >= 0 {
		panic(fmt.Sprintf("polite: Done for %s at %s, where no run is out", host, addr))
	}
	if ended := g.ends[host]; ended != nil {
		close(ended)
		delete(g.ends, host)
	}
	within := g.opt.limits(s.addr)
	s.pace.observe(within, out)
	s.rest = now.Add(max(s.pace.current(within), out.Rest))
	heap.Push(&g.due, s)
	st := Standing{Slot: s.addr, Rest: s.rest, Interval: s.pace.current(within), Host: now.Add(out.Delay)}
	if st.Host.Before(out.NotBefore) {
		st.Host = out.NotBefore
	}
	v, ok := g.hosts[host]
	if ok && v.index < 0 && v.slot == s {
		if to := v.movesTo; out.More || to.IsValid() {
			v.at = st.Host
			v.movesTo = netip.Addr{}
			if !to.IsValid() {
				to = addr
			}
			g.enqueue(v, to)
		} else {
			delete(g.hosts, host)
		}
	}
	g.changed()
	return st
}

// Open allows runs to start at the time from or later, and before the time until. It is called when
// the window opens and closes, when the disk is full, and when the day's bytes are used up. Zero
// times mean no limit. A run in progress is not affected.
func (g *Gate) Open(from, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.from, g.until = from, until
	g.changed()
}

// IsOpen reports whether Open allows a run to start now.
func (g *Gate) IsOpen(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !now.Before(g.from) && (g.until.IsZero() || now.Before(g.until))
}

// Len returns the number of hosts in the gate, including those in a run.
func (g *Gate) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.hosts)
}

// Late returns the number of addresses whose next run still waits for a call of Next, though it has
// been due for at least by.
func (g *Gate) Late(now time.Time, by time.Duration) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	latest := now.Add(-by)
	if latest.Before(g.from) {
		return 0
	}
	for _, s := range g.due {
		if len(s.waiting) > 0 && !s.at().After(latest) {
			n++
		}
	}
	return n
}

// Slot returns the address that represents the group of addr.
func (g *Gate) Slot(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if g.opt.Group != nil {
		return g.opt.Group(addr)
	}
	return addr
}

// enqueue adds v to the queue of addr's slot.
func (g *Gate) enqueue(v *visit, addr netip.Addr) {
	key := g.Slot(addr)
	s, ok := g.slots[key]
	if !ok {
		s = &slot{addr: key}
		s.pace, _ = g.paces.Get(key)
		g.paces.Remove(key)
		if g.opt.Recall != nil {
			var saved time.Duration
			s.rest, saved = g.opt.Recall(key)
			s.pace.recall(g.opt.limits(key), saved)
		}
		g.slots[key] = s
		heap.Push(&g.due, s)
	}
	v.addr, v.slot = addr, s
	heap.Push(&s.waiting, v)
	g.settle(s)
}

// settle updates a slot's place in the heap after a change of its queue.
func (g *Gate) settle(s *slot) {
	if s.index >= 0 {
		heap.Fix(&g.due, s.index)
	}
	g.changed()
}

func (g *Gate) changed() {
	loop.Offer(g.wake, struct{}{})
}

// at returns the time at which a slot's next run may start. A slot without hosts stays until its
// rest ends, so that a host that is added meanwhile is not visited too early.
func (s *slot) at() time.Time {
	if len(s.waiting) > 0 && s.waiting[0].at.After(s.rest) {
		return s.waiting[0].at
	}
	return s.rest
}

func (s *slot) before(t *slot) bool { return s.at().Before(t.at()) }
func (s *slot) place() *int         { return &s.index }

func (v *visit) before(w *visit) bool { return v.at.Before(w.at) }
func (v *visit) place() *int          { return &v.index }

// queued is an element of a queue. It knows its place in the queue.
type queued[T any] interface {
	before(T) bool
	place() *int // -1: not in the queue
}

// queue is a heap for package container/heap.
type queue[T queued[T]] []T

func (q queue[T]) Len() int           { return len(q) }
func (q queue[T]) Less(i, j int) bool { return q[i].before(q[j]) }
func (q queue[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	*q[i].place(), *q[j].place() = i, j
}

func (q *queue[T]) Push(x any) {
	e := x.(T)
	*e.place() = len(*q)
	*q = append(*q, e)
}

func (q *queue[T]) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	clear((*q)[last:])
	*q = (*q)[:last]
	*e.place() = -1
	return e
}

// Place describes how a host waits in the gate, for display.
type Place struct {
	Host     string
	Slot     netip.Addr    // the address, or the first of the group, that the host shares with others
	At       time.Time     // about when its next run starts; while Out: zero
	Asked    time.Time     // no visit to the host before this time: because of its Crawl-delay, its Retry-After or a failure
	Interval time.Duration // holds at the slot now
	Usual    time.Duration // holds there unless the server is slow or in trouble
	Out      bool          // its run is under way
}

// Survey estimates for every host when it will be visited, assuming that runs take no time and
// intervals do not change. It locks the gate while it copies.
func (g *Gate) Survey() []Place {
	g.mu.Lock()
	from := g.from
	places := make([]Place, 0, len(g.hosts))
	rests := make(map[netip.Addr]time.Time, len(g.slots))
	for key, s := range g.slots {
		rests[key] = s.rest
	}
	for _, v := range g.hosts {
		within := g.opt.limits(v.slot.addr)
		p := Place{Host: v.host, Slot: v.slot.addr, Interval: v.slot.pace.current(within), Usual: within.usual, Out: v.index < 0}
		if !p.Out {
			p.At, p.Asked = v.at, v.at
		}
		places = append(places, p)
	}
	g.mu.Unlock()

	// Hosts in the same slot follow one another, in the order of their times.
	slices.SortFunc(places, func(a, b Place) int { return a.At.Compare(b.At) })
	for i := range places {
		p := &places[i]
		if p.Out {
			continue
		}
		for _, t := range []time.Time{rests[p.Slot], from} {
			if t.After(p.At) {
				p.At = t
			}
		}
		rests[p.Slot] = p.At.Add(p.Interval)
	}
	return places
}
