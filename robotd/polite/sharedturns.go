package polite

import (
	"net/netip"
	"time"

	"sheaf/internal/wire"
)

// SharedTurns keeps the interval at addresses that several robots visit, because the manager has
// given copies or shares of a host there to several robots. The robots do not know of each other.
// They divide time, on the manager's clock, into slots that are a little longer than the interval.
// The slots go round among the robots, and a robot begins a visit only at the beginning of its own
// slot. Its methods may be called concurrently.
type SharedTurns struct {
	offset func() time.Duration
	byAddress[sharedHost]
}

// sharedHost is a host at an address that several robots visit.
type sharedHost struct {
	share    wire.Share
	interval time.Duration // between two visits of any robots
}

// NewSharedTurns returns SharedTurns that know no host. offset says how far this machine's clock is
// ahead of the manager's.
func NewSharedTurns(offset func() time.Duration) *SharedTurns { return &SharedTurns{offset: offset} }

// A visit may begin in the first part of a slot: the interval divided by lateness. A visit that
// misses this part waits for the robot's next slot.
const lateness = 8

// SharedSlot returns the length of a slot: the interval and the part in which a visit may begin.
func SharedSlot(interval time.Duration) time.Duration { return interval + interval/lateness }

// Allow returns the first time from now on when a visit may begin at the address.
func (s *SharedTurns) Allow(addr netip.Addr, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	var h sharedHost
	for other := range s.at(addr) { // the fewest visits that one of the hosts allows
		if of, most := other.share.Of, h.share.Of; of > most || of == most && (other.share.Part < h.share.Part || other.interval > h.interval) {
			h = other
		}
	}
	if !h.share.Several() || h.interval <= 0 {
		return now
	}
	offset, slot := s.offset(), SharedSlot(h.interval)
	since := now.Add(-offset).UnixNano()
	number := since / int64(slot)
	ahead := (int64(h.share.Part) - number%int64(h.share.Of) + int64(h.share.Of)) % int64(h.share.Of)
	if ahead == 0 {
		if time.Duration(since-number*int64(slot)) <= h.interval/lateness {
			return now
		}
		ahead = int64(h.share.Of)
	}
	return time.Unix(0, (number+ahead)*int64(slot)).Add(offset)
}

// Set notes this robot's share of a host at an address, in place of what was known of the host.
// interval is the least time between two visits, whichever robots make them.
func (s *SharedTurns) Set(addr netip.Addr, host string, share wire.Share, interval time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if share.Several() {
		s.set(addr, host, sharedHost{share, interval})
	} else {
		s.remove(host)
	}
}
