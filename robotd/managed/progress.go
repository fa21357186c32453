package managed

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
	mu     sync.Mutex                   // guards all below
	cycle  int64                        // number of the cycle that the rest is about
	known  map[string]wire.HostProgress // the hosts' progress now, without AgoMS
	last   map[string]time.Time         // by host: its last visit
	told   map[string]wire.HostProgress // as the manager knows it
	why    map[string]string            // by host: why its last visit got no answer; "": it got one again
	said   map[string]string            // likewise, as the manager knows it
	all    bool                         // the manager is to be told all hosts
	totals wire.HostProgress
	probes map[string]wire.ProbeResult // measured and not told yet
}

func newProgress() *progress {
	return &progress{known: map[string]wire.HostProgress{}, last: map[string]time.Time{}, told: map[string]wire.HostProgress{}, why: map[string]string{}, said: map[string]string{}, probes: map[string]wire.ProbeResult{}, all: true}
}

// note takes in how far the hosts of a cycle's crawl are.
func (p *progress) note(cycle int64, hosts []*crawl.Host) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cycle != cycle {
		p.cycle, p.all = cycle, true
		clear(p.known)
		clear(p.last)
		clear(p.told)
		clear(p.why) // the manager keeps what it knows, until these hosts have been visited again
		clear(p.said)
	}
	for _, h := range hosts {
		if s := h.Progress(); s.State != "" {
			p.goesOn(h.Name, s)
		}
		p.answers(h.Name, h.NoAnswer())
	}
	p.totals = wire.HostProgress{}
	for _, s := range p.known {
		p.totals.Pages, p.totals.Bytes, p.totals.MS = p.totals.Pages+s.Pages, p.totals.Bytes+s.Bytes, p.totals.MS+s.MS
	}
}

// goesOn notes how far a host is. The caller holds mu.
func (p *progress) goesOn(host string, s wire.HostProgress) {
	if s.AgoMS > 0 {
		p.last[host] = time.Now().Add(-time.Duration(s.AgoMS) * time.Millisecond)
	}
	s.AgoMS = 0
	p.known[host] = s
}

// answers notes why a host's last visit got no answer; "": it got one. The caller holds mu.
func (p *progress) answers(host, why string) {
	if _, told := p.why[host]; told || why != "" {
		p.why[host] = why
	}
}

// forget forgets hosts that went to another robot.
func (p *progress) forget(hosts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range hosts {
		delete(p.known, name)
		delete(p.last, name)
		delete(p.told, name)
		delete(p.why, name)
		delete(p.said, name)
	}
}

// fill puts what is to be told into a heartbeat, with at most wire.MaxHeartbeatHosts hosts. The
// caller calls told once the manager has the heartbeat. told reports whether there is more to tell.
func (p *progress) fill(hb *wire.Heartbeat) (told func() (more bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hb.Pages, hb.Bytes, hb.MS = p.totals.Pages, p.totals.Bytes, p.totals.MS
	hb.All, hb.Hosts = p.all, map[string]wire.HostProgress{}
	if p.all {
		clear(p.told)
		clear(p.said)
	}
	more := false
	for name, s := range p.known {
		if told := p.told[name]; told.State == s.State && !changed(told.Left, s.Left) {
			continue
		}
		if more = len(hb.Hosts) == wire.MaxHeartbeatHosts; more {
			break
		}
		if at, ok := p.last[name]; ok {
			s.AgoMS = max(time.Since(at).Milliseconds(), 1)
		}
		hb.Hosts[name] = s
	}
	hb.Unanswered = map[string]string{}
	for name, why := range p.why {
		if why == p.said[name] {
			continue
		}
		if len(hb.Unanswered) == wire.MaxHeartbeatHosts {
			more = true
			break
		}
		hb.Unanswered[name] = why
	}
	hb.Probes = maps.Clone(p.probes)
	return func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all = false
		for name, s := range hb.Hosts {
			p.told[name] = s
		}
		maps.Copy(p.said, hb.Unanswered)
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
