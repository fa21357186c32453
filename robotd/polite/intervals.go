package polite

import (
	"cmp"
	"net/netip"
	"time"
)

// Intervals are the intervals that the service's operators have set for hosts, because the hosts'
// owners allow a shorter one or ask for a longer one. An interval holds at an address, which
// several hosts may share. There the longest interval of these hosts holds, so a short one takes
// effect only if it was set for all of them. Its methods may be called concurrently.
type Intervals struct {
	usual time.Duration // at hosts for which none was set
	byAddress[time.Duration]
}

// NewIntervals returns Intervals that know no host. usual is the interval of hosts for which none
// was set.
func NewIntervals(usual time.Duration) *Intervals { return &Intervals{usual: usual} }

// Of returns the interval that holds for a host. set is the interval that was set for the host; 0:
// no interval was.
func (i *Intervals) Of(set time.Duration) time.Duration { return cmp.Or(set, i.usual) }

// At returns the interval at an address. Where no host is known it is the usual one.
func (i *Intervals) At(addr netip.Addr) (longest time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.first[addr] == nil {
		return i.usual
	}
	for d := range i.at(addr) {
		longest = max(longest, d)
	}
	return longest
}

// Set notes the host's address and the interval that was set for the host; 0: no interval was. It
// replaces what is known of the host.
func (i *Intervals) Set(addr netip.Addr, host string, set time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.set(addr, host, i.Of(set))
}
