package robotd

import (
	"maps"
	"sync"
	"time"

	"sheaf/internal/wire"
	"sheaf/robotd/crawl"
)

// progress is what the manager has been told of the hosts in this cycle, and what it is to be told.
// Its methods may be called concurrently.
type progress struct {
	mu     sync.Mutex                  // guards all below
	cycle  int64                       // number of the cycle that hosts is about
	hosts  map[string]*hostProgress    // by name
	all    bool                        // the manager is to be told all hosts
	probes map[string]wire.ProbeResult // measured and not told yet
}

// hostProgress is how far one host is, and what the manager knows of it.
type hostProgress struct {
	now  wire.HostProgress // without AgoMS; without a state: nothing is to be told
	last time.Time         // last visit; zero: none
	why  string            // why the last visit got no answer; empty: it got one

	told wire.HostProgress // now, as the manager knows it
	said string            // why, as the manager knows it
}

func newProgress() *progress {
	return &progress{hosts: map[string]*hostProgress{}, probes: map[string]wire.ProbeResult{}, all: true}
}

// note takes in how far the hosts of a cycle's crawl are.
func (p *progress) note(cycle int64, hosts []*crawl.Host) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cycle != cycle {
		p.cycle, p.all = cycle, true
		clear(p.hosts) // the manager keeps what it knows, until these hosts have been visited again
	}
	for _, h := range hosts {
		p.goesOn(h.Name, h.Progress(), h.NoAnswer())
	}
}

// goesOn notes how far a host is, if s has a state, and why its last visit got no answer. The
// caller holds mu.
func (p *progress) goesOn(host string, s wire.HostProgress, why string) {
	h := p.hosts[host]
	if h == nil {
		h = new(hostProgress)
		p.hosts[host] = h
	}
	h.why = why
	if s.State == "" {
		return
	}
	if s.AgoMS > 0 {
		h.last = time.Now().Add(-time.Duration(s.AgoMS) * time.Millisecond)
	}
	s.AgoMS = 0
	h.now = s
}

// forget forgets hosts that went to another robot.
func (p *progress) forget(hosts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range hosts {
		delete(p.hosts, name)
	}
}

// fill puts what is to be told into a heartbeat, with at most wire.MaxHeartbeatHosts hosts. The
// caller calls told once the manager has the heartbeat. told reports whether there is more to tell.
func (p *progress) fill(hb *wire.Heartbeat) (told func() (more bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hb.All, hb.Hosts, hb.Unanswered = p.all, map[string]wire.HostProgress{}, map[string]string{}
	more := false
	for name, h := range p.hosts {
		hb.Pages, hb.Bytes, hb.MS = hb.Pages+h.now.Pages, hb.Bytes+h.now.Bytes, hb.MS+h.now.MS
		if p.all {
			h.told, h.said = wire.HostProgress{}, ""
		}
		switch {
		case h.told.State == h.now.State && !changed(h.told.Left, h.now.Left):
		case len(hb.Hosts) == wire.MaxHeartbeatHosts:
			more = true
		default:
			s := h.now
			if !h.last.IsZero() {
				s.AgoMS = max(time.Since(h.last).Milliseconds(), 1)
			}
			hb.Hosts[name] = s
		}
		switch {
		case h.why == h.said:
		case len(hb.Unanswered) == wire.MaxHeartbeatHosts:
			more = true
		default:
			hb.Unanswered[name] = h.why
		}
	}
	hb.Probes = maps.Clone(p.probes)
	return func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all = false
		for name, h := range p.hosts {
			if s, ok := hb.Hosts[name]; ok {
				h.told = s
			}
			if why, ok := hb.Unanswered[name]; ok {
				h.said = why
			}
		}
		for host := range hb.Probes {
			delete(p.probes, host)
		}
		return more
	}
}

// changed reports whether what is left of a host differs by more than a third from what the manager
// knows. So a heartbeat names few hosts, although all of them change all the time.
func changed(told, left int64) bool { return max(told-left, left-told) > told/3 }

// tellAll makes the next heartbeat tell all hosts.
func (p *progress) tellAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = true
}

// measured adds a distance that the manager is to be told.
func (p *progress) measured(host string, r wire.ProbeResult) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probes[host] = r
}
