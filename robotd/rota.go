package robotd

import (
	"net/netip"
	"sync"
	"time"

	"sheaf/internal/wire"
)

// rota keeps the intervals of addresses that several robots visit: hosts of which the manager
// has given copies or shares to several. Time by the manager's clock is divided into slots, a little longer
// than the interval, that go round among the robots; each begins a visit only at the beginning of
// its own. So the server never sees two begin within the interval, though the robots do not know of each other.
type rota struct {
	offset func() time.Duration // of this clock from the manager's

	mu    sync.Mutex // guards all below
	turns map[netip.Addr]map[string]turns
}

// turns are a robot's at an address, for the sake of one host there.
type turns struct {
	share wire.Share
	unit  time.Duration // between two visits of whichever robots
}

// late is the part of the interval for which a slot's beginning lasts. A visit that misses it waits for the robot's next slot.
const late = 8

// allow gives the first time from now on when a visit may begin at the address.
func (r *rota) allow(addr netip.Addr, now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	var t turns
	for _, other := range r.turns[addr] { // the fewest visits that one of the hosts asks for
		if of, most := other.share.Of, t.share.Of; of > most || of == most && (other.share.Part < t.share.Part || other.unit > t.unit) {
			t = other
		}
	}
	if !t.share.Several() || t.unit <= 0 {
		return now
	}
	offset := r.offset()
	slot := t.unit + t.unit/late
	since := now.Add(-offset).UnixNano()
	number := since / int64(slot)
	ahead := (int64(t.share.Part) - number%int64(t.share.Of) + int64(t.share.Of)) % int64(t.share.Of)
	if ahead == 0 {
		if time.Duration(since-number*int64(slot)) <= t.unit/late {
			return now
		}
		ahead = int64(t.share.Of)
	}
	return time.Unix(0, (number+ahead)*int64(slot)).Add(offset)
}

// set notes a host's share at its address, and takes it from where the host was before.
func (r *rota) set(addr netip.Addr, host string, t turns) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(host, addr)
	if !t.share.Several() {
		r.forget(host, netip.Addr{})
		return
	}
	if r.turns[addr] == nil {
		if r.turns == nil {
			r.turns = map[netip.Addr]map[string]turns{}
		}
		r.turns[addr] = map[string]turns{}
	}
	r.turns[addr][host] = t
}

func (r *rota) has(host string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, hosts := range r.turns {
		if _, ok := hosts[host]; ok {
			return true
		}
	}
	return false
}

func (r *rota) remove(host string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(host, netip.Addr{})
}

// forget takes a host from all addresses but one. The lock must be held.
func (r *rota) forget(host string, but netip.Addr) {
	for addr, hosts := range r.turns {
		if addr == but {
			continue
		}
		if delete(hosts, host); len(hosts) == 0 {
			delete(r.turns, addr)
		}
	}
}
