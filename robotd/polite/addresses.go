package polite

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"

	"sheaf/internal/wire"
)

// Addresses knows what is set for the hosts at each address. Its methods may be called
// concurrently.
//
// The service's operators set intervals for hosts whose owners allow a shorter one or ask for a
// longer one. An interval holds at an address, which several hosts may share. There the longest
// interval of these hosts holds, so a short one takes effect only if it was set for all of them.
//
// Several robots visit an address if the manager has given copies or shares of a host there to
// them. The robots do not know of each other. They divide time, on the manager's clock, into slots
// that are a little longer than the interval. The slots go round among the robots, and a robot
// begins a visit only at the beginning of its own slot.
type Addresses struct {
	usual    time.Duration
	shortest time.Duration
	offset   func() time.Duration

	mu    sync.Mutex // guards all below
	hosts map[string]*atAddress
	at    map[netip.Addr][]*atAddress
}

// HostTerms are what is set for a host.
type HostTerms struct {
	Interval   time.Duration // between two visits; 0: the usual one
	Shortest   time.Duration // least interval that a fast server gets; 0: Interval or, if that is 0 too, the robot's own
	CrawlDelay time.Duration // of its robots.txt, as far as it is known
	Share      wire.Share    // which of its URLs are this robot's
}

// atAddress is a host at an address.
type atAddress struct {
	addr netip.Addr
	HostTerms
}

// NewAddresses returns Addresses that know no host. usual is the interval of hosts for which none
// was set, and shortest its limit when it adapts to a fast server. offset says how far this
// machine's clock is ahead of the manager's.
func NewAddresses(usual, shortest time.Duration, offset func() time.Duration) *Addresses {
	return &Addresses{
		usual: usual, shortest: shortest, offset: offset, hosts: make(map[string]*atAddress), at: make(map[netip.Addr][]*atAddress),
	}
}

// Set notes a host's address, and what is set for the host. It replaces what is known of the host.
func (a *Addresses) Set(addr netip.Addr, host string, t HostTerms) {
	t.Interval, t.Shortest = cmp.Or(t.Interval, a.usual), cmp.Or(t.Shortest, t.Interval, a.shortest)
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.hosts[host]
	if h == nil || h.addr != addr {
		a.remove(host)
		h = &atAddress{addr: addr}
		a.hosts[host], a.at[addr] = h, append(a.at[addr], h)
	}
	h.HostTerms = t
}

// Remove forgets a host.
func (a *Addresses) Remove(host string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.remove(host)
}

func (a *Addresses) remove(host string) {
	h := a.hosts[host]
	if h == nil {
		return
	}
	delete(a.hosts, host)
	others := slices.DeleteFunc(a.at[h.addr], func(other *atAddress) bool { return other == h })
	if len(others) > 0 {
		a.at[h.addr] = others
	} else {
		delete(a.at, h.addr)
	}
}

// Interval returns the interval at an address, and its limit when it adapts to a fast server. Where
// no host is known they are the usual ones.
func (a *Addresses) Interval(addr netip.Addr) (interval, shortest time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.at[addr]
	if len(all) == 0 {
		return a.usual, a.shortest
	}
	for _, h := range all {
		interval, shortest = max(interval, h.Interval), max(shortest, h.Shortest)
	}
	return interval, shortest
}

// A visit may begin in the first part of a slot: the interval divided by lateness. A visit that
// misses this part waits for the robot's next slot.
const lateness = 8

// SharedSlot returns the length of a slot: the interval and the part in which a visit may begin.
func SharedSlot(interval time.Duration) time.Duration { return interval + interval/lateness }

// Allow returns the first time from now on when this robot may begin a visit at the address, as far
// as other robots that visit it are concerned.
func (a *Addresses) Allow(addr netip.Addr, now time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	var share wire.Share
	var interval time.Duration
	for _, h := range a.at[addr] { // the fewest visits that one of the hosts allows
		every := max(h.Interval, h.CrawlDelay)
		if of, most := h.Share.Of, share.Of; of > most || of == most && (h.Share.Part < share.Part || every > interval) {
			share, interval = h.Share, every
		}
	}
	if !share.Several() || interval <= 0 {
		return now
	}
	offset, slot := a.offset(), SharedSlot(interval)
	since := now.Add(-offset).UnixNano()
	number := since / int64(slot)
	ahead := (int64(share.Part) - number%int64(share.Of) + int64(share.Of)) % int64(share.Of)
	if ahead == 0 {
		if time.Duration(since-number*int64(slot)) <= interval/lateness {
			return now
		}
		ahead = int64(share.Of)
	}
	return time.Unix(0, (number+ahead)*int64(slot)).Add(offset)
}

// Moves are hosts that the robot has found at another address than before. Other robots may be
// visiting that address, so the robot goes there only when the manager knows, and has not given the
// host to another robot or told this one to wait. Its methods may be called concurrently.
type Moves struct {
	mu    sync.Mutex // guards what follows
	found map[string]netip.Addr
	told  map[string]netip.Addr
}

// NewMoves returns Moves that know no host.
func NewMoves() *Moves {
	return &Moves{found: map[string]netip.Addr{}, told: map[string]netip.Addr{}}
}

// May reports whether a host that has moved may be visited at its new address. If not, the manager
// is to be told of it.
func (m *Moves) May(host string, to netip.Addr) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.told[host] == to {
		delete(m.told, host)
		return true
	}
	m.found[host] = to
	return false
}

// Found returns the addresses that the manager is to be told of, by host.
func (m *Moves) Found() map[string][]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[string][]string, len(m.found))
	for host, to := range m.found {
		all[host] = []string{to.String()}
	}
	return all
}

// Told takes addresses that Found has returned. Call it when the manager knows them and the robot
// has the list of hosts that the manager then sent: May allows these moves from then on.
func (m *Moves) Told(addresses map[string][]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for host, list := range addresses {
		if to := m.found[host]; to.String() == list[0] {
			delete(m.found, host)
			m.told[host] = to
		}
	}
}
