package robotd

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"sheaf/internal/wire"
)

// progress is what the robot has told the manager of its hosts in this cycle, and is yet to tell.
type progress struct {
	mu     sync.Mutex                   // guards all below
	cycle  int64                        // that the rest is about
	known  map[string]wire.HostProgress // as they are
	told   map[string]wire.HostState    // that the manager has
	all    bool                         // the manager is to be told all hosts, for it may know others
	totals wire.HostProgress
	probes map[string]wire.ProbeResult // measured and not told yet
}

func newProgress() *progress {
	return &progress{known: map[string]wire.HostProgress{}, told: map[string]wire.HostState{}, probes: map[string]wire.ProbeResult{}, all: true}
}

// note takes in how the crawl's hosts are.
func (p *progress) note(cycle int64, hosts []*host) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cycle != cycle {
		p.cycle, p.all = cycle, true
		clear(p.known)
		clear(p.told)
	}
	for _, h := range hosts {
		if s := h.progress(); s.State != "" {
			p.known[h.name] = s
		}
	}
	p.totals = wire.HostProgress{}
	for _, s := range p.known {
		p.totals.Pages, p.totals.Bytes, p.totals.MS = p.totals.Pages+s.Pages, p.totals.Bytes+s.Bytes, p.totals.MS+s.MS
	}
}

// forget lets go of hosts that went to another robot.
func (p *progress) forget(hosts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range hosts {
		delete(p.known, name)
		delete(p.told, name)
	}
}

// fill puts what is to be told into a heartbeat, at most as many hosts as one may hold. The
// returned function notes that the manager has it; it reports whether there is more to tell.
func (p *progress) fill(hb *wire.Heartbeat) (told func() (more bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hb.Pages, hb.Bytes, hb.MS = p.totals.Pages, p.totals.Bytes, p.totals.MS
	hb.All, hb.Hosts = p.all, map[string]wire.HostProgress{}
	if p.all {
		clear(p.told)
	}
	more := false
	for name, s := range p.known {
		if p.told[name] == s.State {
			continue
		}
		if more = len(hb.Hosts) == wire.MaxHeartbeatHosts; more {
			break
		}
		hb.Hosts[name] = s
	}
	hb.Probes = maps.Clone(p.probes)
	return func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all = false
		for name, s := range hb.Hosts {
			p.told[name] = s.State
		}
		for host := range hb.Probes {
			delete(p.probes, host)
		}
		return more
	}
}

func (p *progress) tellAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = true
}

func (p *progress) measured(host string, r wire.ProbeResult) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probes[host] = r
}

// progress says how far the host is; with the zero value nothing of it has been visited.
func (h *host) progress() wire.HostProgress {
	s := wire.HostProgress{Pages: h.pages.Load(), Bytes: h.bytes.Load(), MS: h.ms.Load()}
	begun := h.front.Begun()
	switch {
	case h.idle.Load() || begun && h.front.Empty():
		s.State = wire.HostDone
	case begun:
		s.State = wire.HostBegun
	}
	return s
}

// heartbeat says how far the robot is.
func (r *Robot) heartbeat() (wire.Heartbeat, func() bool, error) {
	list := r.list.List()
	r.mu.Lock()
	hb := wire.Heartbeat{List: list.ETag, Generation: list.Generation, Version: Version, Cycle: r.cycle.Number, Held: !r.held.IsZero()}
	c := r.crawl
	r.mu.Unlock()
	if c != nil && c.short { // the hosts' progress is the cycle's, which has ended
		c = nil
	}
	hb.Phase = r.phase(c, time.Now())
	if c != nil && hb.Phase != wire.PhaseStarting {
		hosts := c.all()
		r.progress.note(hb.Cycle, hosts)
		for _, h := range hosts {
			if h.unreached() {
				continue // it cannot be reached: nobody's load
			}
			hb.Left += int64(h.front.Left())
		}
	}
	batches, err := r.batches.Spool()
	for _, b := range batches {
		hb.Spool += b.Size
	}
	filled := r.progress.fill(&hb)
	taken, told := r.orders.tell()
	hb.Taken = taken
	return hb, func() bool {
		told()
		return filled()
	}, err
}

func (r *Robot) phase(c *crawl, now time.Time) wire.Phase {
	from, _ := r.opening(now)
	r.mu.Lock()
	cycle := r.cycle.Number
	r.mu.Unlock()
	switch {
	case r.paused():
		return wire.PhasePaused
	case c != nil && c.isStarting():
		return wire.PhaseStarting
	case c != nil && from.After(now):
		return wire.PhaseClosed
	case c != nil:
		return wire.PhaseCollecting
	case cycle > 0 && !from.After(now):
		return wire.PhaseIdle
	}
	return wire.PhaseResting
}

func (c *crawl) isStarting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.starting > 0
}

// beat tells the manager how far the robot is and does what it asks. A manager that is
// away is told the next time.
func (r *Robot) beat(ctx context.Context) error {
	r.asking.Lock()
	defer r.asking.Unlock()
	if err := r.subscribed(ctx); err != nil {
		r.missed(ctx, err)
		return nil
	}
	r.passOn(ctx)
	for {
		hb, told, err := r.heartbeat()
		if err != nil {
			return err
		}
		orders, err := r.manager.Heartbeat(ctx, hb)
		if err != nil {
			r.missed(ctx, err)
			return nil
		}
		if r.away {
			r.away = false
			r.log.Info("the manager answers again")
		}
		more := told()
		if err := r.obey(ctx, orders); err != nil && ctx.Err() == nil {
			r.log.Warn("manager's orders not carried out", "orders", orders.Directives, "error", err)
		}
		if !more {
			return nil
		}
	}
}

// missed notes that the manager was not told, and says so once. The caller holds r.asking.
func (r *Robot) missed(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case r.away:
		r.log.Debug("heartbeat not taken", "error", err)
	default:
		r.away = true
		r.log.Warn("the manager does not answer; the robot goes on by itself and keeps what it collects", "error", err)
	}
}

// obey does what the manager asks.
func (r *Robot) obey(ctx context.Context, orders wire.Orders) error {
	for _, d := range orders.Directives {
		var err error
		switch d {
		case wire.DirectiveRestart:
			err = r.restart(ctx)
		case wire.DirectiveRebalance:
			err = r.refresh(ctx)
		case wire.DirectivePause, wire.DirectiveResume:
			err = r.hold(d == wire.DirectivePause)
		case wire.DirectiveReport:
			r.progress.tellAll()
		case wire.DirectiveUpgrade:
			r.lookForRelease()
		default: // of a newer manager, or not for this program
			r.log.Info("the manager asks for what this program does not do", "directive", d)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
	}
	if len(orders.Probes) > 0 {
		r.probeLater(orders.Probes)
	}
	if len(orders.Visits) > 0 {
		if err := r.orders.add(orders.Visits); err != nil {
			return err
		}
		return r.comeBack(ctx)
	}
	return nil
}

// heldFile stands in the data folder while the manager wants no visits: the order holds over a
// restart, with the manager away too, until the manager lifts it.
const heldFile = "held.json"

// hold stops visits, or lets them go on. The pages in hand are finished, and batches go on being uploaded.
func (r *Robot) hold(held bool) error {
	var since time.Time
	if held {
		since = time.Now()
	}
	r.mu.Lock()
	changed := r.held.IsZero() == held
	if changed {
		r.held = since
	}
	r.mu.Unlock()
	if !changed {
		return nil
	}
	r.log.Info("the manager's order about visits", "paused", held)
	select {
	case r.turned <- struct{}{}:
	default: // told already
	}
	return writePause(r.path(heldFile), since)
}

// anyBegun reports whether something of one of the hosts may lie in open segments.
func (r *Robot) anyBegun(names []string) (bool, error) {
	for _, name := range names {
		front, err := r.frontier.Host(name)
		if err != nil {
			return false, err
		}
		if front.Begun() {
			return true, nil
		}
	}
	return false, nil
}
