package robotd

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"sheaf/internal/loop"
	"sheaf/internal/wire"
	"sheaf/robotd/crawl"
	"sheaf/robotd/polite"
)

// Beat tells the manager how far the robot is, and carries out the manager's orders. Its errors are
// the robot's own: a manager that is away is told the next time.
func (s *session) Beat(ctx context.Context) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	if err := s.subscribe(ctx); err != nil {
		s.missed(ctx, err)
		return nil
	}
	s.passOn(ctx)
	for {
		hb, told, err := s.heartbeat()
		if err != nil {
			return err
		}
		sent := polite.Sent()
		orders, lease, err := s.robot.client.Heartbeat(ctx, hb)
		if err != nil {
			s.missed(ctx, err)
			return nil
		}
		if err := s.robot.manners.Lease.Renew(sent, lease); err != nil {
			return err
		}
		if s.away {
			s.away = false
			s.robot.log.InfoContext(ctx, "the manager answers again")
		}
		more := told()
		if err := s.obey(ctx, sent, orders); err != nil && ctx.Err() == nil {
			s.robot.log.WarnContext(ctx, "manager's orders not carried out", "directive", orders.Directives, "err", err)
		}
		if !more {
			return nil
		}
	}
}

// heartbeat returns what to tell the manager. told notes that the manager knows it, and reports
// whether there is more to tell.
func (s *session) heartbeat() (hb wire.Heartbeat, told func() (more bool), err error) {
	list := s.robot.list.List()
	hb = wire.Heartbeat{
		List: list.ETag, Generation: list.Generation, Version: Version, Cycle: s.robot.state.Number(), Held: s.robot.manners.Admission.Held(),
		EveryMS: s.robot.cfg.Heartbeat.Milliseconds(), Clock: s.robot.client.Clock(),
		Contact: s.robot.cfg.Contact, Troubles: s.robot.troubles(), Signing: s.robot.signing(),
	}
	hb.Links = s.robot.records.Tally.Links()
	c := s.robot.crawler.Current()
	if c != nil && c.Short() { // the progress of hosts is that of the cycle, which has ended
		c = nil
	}
	hb.Phase = s.phase(c, hb.Cycle, time.Now())
	if c != nil && hb.Phase != wire.PhaseStarting {
		hosts := c.Hosts()
		s.progress.note(hb.Cycle, hosts)
		for _, h := range hosts {
			if !h.Unreached() { // a host that cannot be reached is no load
				hb.Left += int64(h.Front.Left())
			}
		}
		hb.Crowded = int64(c.Crowded(time.Now()))
	}
	batches, err := s.robot.records.Batches.Spool()
	for _, b := range batches {
		hb.Spool += b.Size
	}
	filled := s.progress.fill(&hb)
	taken, taking := s.robot.orders.Taken()
	hb.Taken = taken
	return hb, func() bool {
		taking()
		return filled()
	}, err
}

// phase returns what the robot does now. c is the crawl of a cycle; nil: no cycle is under way.
func (s *session) phase(c *crawl.Crawl, cycle int64, now time.Time) wire.Phase {
	open := s.robot.manners.Admission.MayVisit(now)
	switch {
	case s.robot.manners.Admission.Paused():
		return wire.PhasePaused
	case c != nil && c.IsStarting():
		return wire.PhaseStarting
	case c != nil && !open:
		return wire.PhaseClosed
	case c != nil:
		return wire.PhaseCollecting
	case cycle > 0 && open:
		return wire.PhaseIdle
	}
	return wire.PhaseResting
}

// missed notes that the manager was not told, and logs it once. The caller holds asking.
func (s *session) missed(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case s.away:
		s.robot.log.DebugContext(ctx, "heartbeat not taken", "err", err)
	default:
		s.away = true
		s.robot.log.WarnContext(ctx, "the manager does not answer; the robot goes on by itself and keeps what it collects", "err", err)
	}
}

// passOn tells the manager at once what was found in other robots' shares, since those robots wait
// for it.
func (s *session) passOn(ctx context.Context) {
	if len(s.robot.list.List().Shares) == 0 {
		return
	}
	if err := s.robot.records.Found.Report(ctx, s.robot.client); err != nil && ctx.Err() == nil {
		s.robot.log.DebugContext(ctx, "URLs of others' shares not passed on yet", "err", err)
	}
}

// obey carries out the manager's orders. sent is a time before the robot asked for them.
func (s *session) obey(ctx context.Context, sent polite.Instant, orders wire.Orders) error {
	for _, d := range orders.Directives {
		var err error
		switch d {
		case wire.DirectiveRestart:
			err = s.restart(ctx)
		case wire.DirectiveRebalance:
			err = s.Refresh(ctx)
		case wire.DirectivePause, wire.DirectiveResume:
			err = s.robot.manners.Admission.Hold(d == wire.DirectivePause)
		case wire.DirectiveReport:
			s.progress.tellAll()
		case wire.DirectiveUpgrade:
			s.robot.program.askNow()
		default: // of a newer manager
			s.robot.log.InfoContext(ctx, "the manager asks for what this program does not do", "directive", d)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
	}
	if len(orders.Probes) > 0 {
		loop.Offer(s.asks, probes{sent, orders.Probes}) // if an order waits already, the manager repeats this one
	}
	if len(orders.Visits) > 0 {
		if err := s.robot.orders.Add(orders.Visits); err != nil {
			return err
		}
		return s.robot.crawler.QueueDue(ctx)
	}
	return nil
}

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
