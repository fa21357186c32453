package polite

import (
	"net/netip"
	"slices"
	"time"
)

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
