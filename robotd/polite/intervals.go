package polite

import (
	"net/netip"
	"sync"
	"time"
)

// Intervals are the intervals that the service's operators have set for hosts, because the hosts'
// owners allow a shorter one or ask for a longer one. An interval holds at an address, which
// several hosts may share. There the longest interval of these hosts holds, so a short one takes
// effect only if it was set for all of them. Its methods may be called concurrently.
type Intervals struct {
	usual time.Duration // at hosts for which none was set

	mu    sync.Mutex // guards all below
	homes map[string]netip.Addr
	hosts map[netip.Addr]map[string]time.Duration
}

// NewIntervals returns Intervals that know no host. usual is the interval of hosts for which none
// was set.
func NewIntervals(usual time.Duration) *Intervals {
	return &Intervals{usual: usual, homes: make(map[string]netip.Addr), hosts: make(map[netip.Addr]map[string]time.Duration)}
}

// Of returns the interval that holds for a host. set is the interval that was set for it; 0: none
// was.
func (i *Intervals) Of(set time.Duration) time.Duration {
	if set <= 0 {
		return i.usual
	}
	return set
}

// At returns the interval at an address. Where no host is known it is the usual one.
func (i *Intervals) At(addr netip.Addr) (longest time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	hosts := i.hosts[addr]
	if len(hosts) == 0 {
		return i.usual
	}
	for _, d := range hosts {
		longest = max(longest, d)
	}
	return longest
}

// Set notes the host's address and the interval that was set for it; 0: none was. It replaces what
// is known of the host.
func (i *Intervals) Set(addr netip.Addr, host string, set time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if home, ok := i.homes[host]; ok && home != addr {
		i.remove(host)
	}
	if i.hosts[addr] == nil {
		i.hosts[addr] = make(map[string]time.Duration)
	}
	i.homes[host], i.hosts[addr][host] = addr, i.Of(set)
}

// Remove forgets a host.
func (i *Intervals) Remove(host string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.remove(host)
}

func (i *Intervals) remove(host string) {
	addr, ok := i.homes[host]
	if !ok {
		return
	}
	delete(i.homes, host)
	if delete(i.hosts[addr], host); len(i.hosts[addr]) == 0 {
		delete(i.hosts, addr)
	}
}
