package polite

import (
	"container/heap"
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"
)

// GateOptions say how much time lies between two runs.
type GateOptions struct {
	// Interval lies between the end of a run at an address and the start of
	// the next one there.
	Interval time.Duration
	// Min and Max bound the interval of a server that bears the visits well or
	// badly. Those that are not on their side of Interval keep it as it is.
	Min, Max time.Duration
	// Group maps addresses that count as one to one of them. Nil lets each
	// count for itself.
	Group func(netip.Addr) netip.Addr
	// Recall tells of an address, or a group's, what an earlier run left of it: until when
	// it is to be left alone, and an interval longer than Interval. Nil knows nothing. It
	// must not call the gate.
	Recall func(netip.Addr) (until time.Time, interval time.Duration)
	// Allow gives the first time from now on when a run may start at an address, or a group's, for
	// another reason than its interval: other robots visit it too. Nil allows any. It must not call the gate.
	Allow func(addr netip.Addr, now time.Time) time.Time
}

// Gate says which host may be visited next, and when. All methods may be called
// by many goroutines at once. The promise: between two calls of Done for an
// address, Next returns that address at most once, and never before the interval
// has passed since the first of them.
type Gate struct {
	opt    GateOptions
	leader chan struct{} // held by the one caller of Next that watches the heap
	wake   chan struct{} // tells the leader that the heap's top or the opening has changed

	mu    sync.Mutex // guards all below
	from  time.Time  // no run starts before
	until time.Time  // no run starts from then on; zero: no end
	slots map[netip.Addr]*slot
	due   slotHeap // the slots at which nothing runs
	hosts map[string]*visit
}

// slot is one address, or one group of addresses, with the hosts on it.
type slot struct {
	addr    netip.Addr
	rest    time.Time // not before: the interval after the last run
	pace    pace
	waiting visitHeap
	index   int // in the heap; -1 while a run is out
}

// visit is one host's place in the queue.
type visit struct {
	host  string
	addr  netip.Addr // where to connect; its slot's address or one of its group
	at    time.Time  // not before
	slot  *slot
	index int // in its slot's heap; -1 while its run is out

	movesTo netip.Addr // while out: an Add with another address came
}

// Outcome says how a run ended.
type Outcome struct {
	More      bool          // the host has more to fetch: it stays in the gate
	Delay     time.Duration // the host's Crawl-delay: its own next run is that far off
	NotBefore time.Time     // the host's Retry-After or back-off
	Rest      time.Duration // for the whole address, where longer than the interval: a multiple of the time it took
	Wait      time.Duration // until the first byte of the answer; zero where nothing was asked
	Trouble   bool          // the server is overloaded or does not answer
}

// Standing is when a host and its address may be visited again, as it stands after a run.
type Standing struct {
	Slot     netip.Addr    // the address, or the one that stands for its group
	Rest     time.Time     // nobody visits the slot before
	Interval time.Duration // that holds there now
	Host     time.Time     // the host itself is not visited before
}

// NewGate returns an empty gate.
func NewGate(opt GateOptions) *Gate {
	return &Gate{
		opt:    opt,
		leader: make(chan struct{}, 1),
		wake:   make(chan struct{}, 1),
		slots:  make(map[netip.Addr]*slot),
		hosts:  make(map[string]*visit),
	}
}

// Add puts a host into the queue of its address. A host that is in the gate
// already keeps its place, or moves when its address has changed.
func (g *Gate) Add(addr netip.Addr, host string) {
	g.AddAt(addr, host, time.Time{})
}

// AddAt is Add for a host that is not to be visited before t.
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

// Remove takes a host out of the gate. One whose run is out leaves with Done.
func (g *Gate) Remove(host string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v, ok := g.hosts[host]
	if !ok {
		return
	}
	delete(g.hosts, host)
	if v.index >= 0 {
		heap.Remove(&v.slot.waiting, v.index)
		g.settle(v.slot)
	}
}

// Next waits until a host may be visited and hands it out with the address to
// connect to. The address is nobody else's until Done is called with both.
func (g *Gate) Next(ctx context.Context) (netip.Addr, string, error) {
	// One caller watches the heap, the others wait for their turn to watch: a
	// thousand workers do not all wake for one address.
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
		if err := g.sleep(ctx, wait); err != nil {
			return netip.Addr{}, "", err
		}
	}
}

// sleep waits for a while, for good when it is negative, or until something changes.
func (g *Gate) sleep(ctx context.Context, wait time.Duration) error {
	var after <-chan time.Time
	if wait >= 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		after = timer.C
	}
	select {
	case <-after:
	case <-g.wake:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// take removes the first host that is due, or says how long to wait for one;
// negative when there is none at all.
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
			return nil, -1 // until Open says more
		}
		if g.opt.Allow != nil && len(s.waiting) > 0 {
			if from := g.opt.Allow(s.addr, now); from.After(now) {
				s.rest = from
				heap.Fix(&g.due, 0)
				continue
			}
		}
		heap.Pop(&g.due)
		if len(s.waiting) == 0 { // its rest is over and nobody is left
			delete(g.slots, s.addr)
			continue
		}
		return heap.Pop(&s.waiting).(*visit), 0
	}
	return nil, -1
}

// Done ends the run that Next handed out. It panics for one that is not out:
// the promise to the address could not be kept.
func (g *Gate) Done(addr netip.Addr, host string, out Outcome) Standing {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ok := g.slots[g.group(addr)]
	if !ok || s.index >= 0 {
		panic(fmt.Sprintf("polite: Done for %s at %s, where no run is out", host, addr))
	}
	s.pace.observe(&g.opt, out.Wait, out.Trouble)
	s.rest = now.Add(max(s.pace.current(&g.opt), out.Rest))
	heap.Push(&g.due, s)
	st := Standing{Slot: s.addr, Rest: s.rest, Interval: s.pace.current(&g.opt), Host: now.Add(out.Delay)}
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

// Open lets runs start from one time on and until another, which is not included:
// the window opens and closes, the disk is short, the day's bytes are used up. Zero times are
// no bounds. A run that has started is not cut short.
func (g *Gate) Open(from, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.from, g.until = from, until
	g.changed()
}

// IsOpen reports whether a run may start now, as far as Open decides it.
func (g *Gate) IsOpen(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !now.Before(g.from) && (g.until.IsZero() || now.Before(g.until))
}

// Len returns the number of hosts in the gate, those being visited included.
func (g *Gate) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.hosts)
}

// NextTime returns when the next run may start; false when no host waits.
func (g *Gate) NextTime() (time.Time, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.due) == 0 {
		return time.Time{}, false
	}
	at := g.due[0].at()
	if at.Before(g.from) {
		at = g.from
	}
	return at, true
}

// Slot is the address that stands for those that count as one with addr.
func (g *Gate) Slot(addr netip.Addr) netip.Addr { return g.group(addr) }

func (g *Gate) group(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if g.opt.Group != nil {
		return g.opt.Group(addr)
	}
	return addr
}

// enqueue puts v into the queue of the slot that addr belongs to.
func (g *Gate) enqueue(v *visit, addr netip.Addr) {
	key := g.group(addr)
	s, ok := g.slots[key]
	if !ok {
		s = &slot{addr: key}
		if g.opt.Recall != nil {
			s.rest, s.pace.interval = g.opt.Recall(key)
		}
		g.slots[key] = s
		heap.Push(&g.due, s)
	}
	v.addr, v.slot = addr, s
	heap.Push(&s.waiting, v)
	g.settle(s)
}

// settle puts a slot where its queue now says.
func (g *Gate) settle(s *slot) {
	if s.index >= 0 {
		heap.Fix(&g.due, s.index)
	}
	g.changed()
}

func (g *Gate) changed() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// at is when a slot's next run may start. Without hosts it waits for its rest
// to end, lest a host that comes meanwhile is served too early.
func (s *slot) at() time.Time {
	if len(s.waiting) > 0 && s.waiting[0].at.After(s.rest) {
		return s.waiting[0].at
	}
	return s.rest
}

type slotHeap []*slot

func (h slotHeap) Len() int           { return len(h) }
func (h slotHeap) Less(i, j int) bool { return h[i].at().Before(h[j].at()) }
func (h slotHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *slotHeap) Push(x any) {
	s := x.(*slot)
	s.index = len(*h)
	*h = append(*h, s)
}

func (h *slotHeap) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	s.index = -1
	return s
}

type visitHeap []*visit

func (h visitHeap) Len() int           { return len(h) }
func (h visitHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h visitHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *visitHeap) Push(x any) {
	v := x.(*visit)
	v.index = len(*h)
	*h = append(*h, v)
}

func (h *visitHeap) Pop() any {
	last := len(*h) - 1
	v := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	v.index = -1
	return v
}
