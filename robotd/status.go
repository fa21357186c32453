package robotd

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sheaf/robotd/config"
	"sheaf/robotd/datadir"
	"sheaf/robotd/polite"
	"sheaf/robotd/status"
)

// statusFile keeps what the robot last said of itself, for when it does not run.
const statusFile = "status.json"

// status tells the robot's state, with up to so many hosts, or all where it is negative.
// It may be called at any time.
func (r *Robot) status(hosts int) (status.Status, error) {
	now := time.Now()
	s := status.Status{
		Robot: r.id.Robot, Version: Version, PID: os.Getpid(), Started: r.started, At: now,
		Troubles: []string{}, Warnings: []string{}, Unreached: []string{},
		Window: r.plan.Window.String(), Open: r.plan.Window.Open(now),
		Segments: r.batches.Size(), Found: r.found.Waiting(),
		Lost: r.ledger.Totals(), Clock: r.manager.Clock(),
		Paused: r.pause.since(),
	}
	if s.Open {
		s.Changes = r.plan.Window.Until(now)
	} else {
		s.Changes, _ = r.plan.Window.Next(now)
	}
	if r.tap != nil {
		s.Tap = &status.Tap{Consumers: r.tap.Consumers(), Dropped: r.tap.Dropped()}
	}
	if paid := r.budget.Next(now); paid.After(now) {
		s.Budget = paid
	}
	r.mu.Lock()
	s.Next.Log, s.Next.Manager = r.plan.NextLog(now), r.askAt
	s.Generation, s.Cycle, s.Began, s.Ended = r.list.Generation(), r.cycle.Number, r.cycle.Began, r.cycle.Ended
	s.Hosts, s.Held = len(r.list.Hosts()), r.held
	c := r.crawl
	r.mu.Unlock()
	if c != nil {
		c.describe(&s, hosts)
		covered := c.coverage(now)
		s.Coverage = &covered
	} else {
		s.Coverage = r.covered.Load()
		s.Pages.Total, s.Bytes.Total = r.pages.Load(), r.bytes.Load()
	}
	if c == nil && !s.Ended.IsZero() {
		s.Next.Cycle, _ = r.plan.NextCycle(s.Began, s.Ended)
	}
	batches, err := r.batches.Pending()
	for _, b := range batches {
		s.Spool = append(s.Spool, status.Batch{ID: b.ID, Bytes: b.Bytes, Made: b.Made})
	}
	r.describeUploads(&s)
	s.Managers = r.manager.Targets()
	if why := r.room.Short(); why != "" {
		s.Warnings = append(s.Warnings, "nothing is collected: "+why)
	}
	s.Warnings = append(s.Warnings, warnings(&s)...)
	return s, err
}

// Bounds of what is no matter for the operator.
const (
	longInSpool = 24 * time.Hour
	clockOff    = time.Minute
)

// maxUnreached is how many of the hosts left out are named.
const maxUnreached = 5

// warnings names what the operator should look at, though the crawl goes on.
func warnings(s *status.Status) (all []string) {
	if len(s.Spool) > 0 && s.At.Sub(s.Spool[0].Made) > longInSpool {
		all = append(all, fmt.Sprintf("batch %s has waited for the service since %s", s.Spool[0].ID, s.Spool[0].Made.Format(time.RFC3339)))
	}
	if c := s.Clock; c != nil {
		if off := time.Duration(c.OffsetMS) * time.Millisecond; off.Abs() > clockOff {
			all = append(all, fmt.Sprintf("this machine's clock differs from the manager's by %v", off.Round(time.Second)))
		}
	}
	if s.Open && s.LeftOut > 0 && 2*s.LeftOut >= s.Hosts {
		all = append(all, fmt.Sprintf("%d of %d hosts cannot be reached: is the network as it should be?", s.LeftOut, s.Hosts))
	}
	if f := s.Forecast; f != nil && f.Done.IsZero() {
		all = append(all, "the known pages cannot be visited within a year in this window")
	}
	return all
}

// describe adds what a crawl that is under way tells.
func (c *crawl) describe(s *status.Status, hosts int) {
	now := s.At
	places := c.gate.Survey()
	s.Waiting = len(places)
	at := make(map[string]*polite.Place, len(places))
	due, late := 0, 0
	open := c.gate.IsOpen(now)
	for i := range places {
		p := &places[i]
		at[p.Host] = p
		switch {
		case p.Out:
			s.Visited++
			continue
		case open && !p.At.After(now):
			due++
			if now.Sub(p.At) > stuckAfter(&c.cfg.Page) {
				late++
			}
		}
		if s.Next.Visit.IsZero() || p.At.Before(s.Next.Visit) {
			s.Next.Visit = p.At
		}
	}
	for _, m := range []struct {
		module
		queue int
		late  int // those of them that may have waited for long
	}{{c.fetching, due, late}, {c.extracting, len(c.extracting.in), len(c.extracting.in)}, {c.storing, len(c.storing.in), len(c.storing.in)}} {
		if m.passed == nil {
			continue // not begun yet
		}
		s.Modules = append(s.Modules, m.describe(m.queue))
		if m.stuck(m.late, c.began, stuckAfter(&c.cfg.Page), now) {
			s.Troubles = append(s.Troubles, fmt.Sprintf("module %s: %d wait and nothing has passed for %v", m.name, m.late, stuckAfter(&c.cfg.Page)))
		}
	}
	loads := make(map[string]*load)
	for _, h := range c.all() {
		d := describeHost(h, at[h.name])
		if d.State == status.Waits || d.State == status.LeftOut {
			d.Why = c.whyWaits(h, at[h.name], now)
		}
		s.Pages.Total += d.Pages.Total
		s.Pages.PerMinute += d.Pages.PerMinute
		s.Bytes.Total += d.Bytes.Total
		s.Bytes.PerMinute += d.Bytes.PerMinute
		switch {
		case h.unreached():
			s.LeftOut++
			if len(s.Unreached) < maxUnreached {
				s.Unreached = append(s.Unreached, h.name)
			}
		case at[h.name] != nil:
			c.weigh(loads, d, at[h.name])
		}
		if hosts != 0 {
			s.PerHost = append(s.PerHost, d)
		}
	}
	slices.Sort(s.Unreached)
	s.Addresses = len(loads)
	s.Forecast = c.forecast(loads, s)
	status.Busiest(s.PerHost)
	if hosts >= 0 && len(s.PerHost) > hosts {
		s.PerHost = s.PerHost[:hosts]
	}
}

func describeHost(h *host, p *polite.Place) status.Host {
	d := status.Host{Name: h.name, State: status.Done, Pages: h.pages.rate(), Bytes: h.bytes.rate(), Left: int64(h.front.Left())}
	if addr := h.addr.Load(); addr != nil {
		d.Address = addr.Addr().String()
	}
	switch {
	case p != nil && p.Out:
		d.State = status.Visiting
	case h.unreached():
		d.State = status.LeftOut
	case p != nil:
		d.State = status.Waits
	}
	if p != nil && !p.Out {
		d.Next = p.At
	}
	return d
}

// stuckAfter is how long nothing may pass while something waits. Each fetch ends within
// this time, because the page's timeout holds for all of it.
func stuckAfter(p *config.Page) time.Duration { return p.Timeout + p.Stall }

// saveStatus writes the status for when the robot does not run.
func (r *Robot) saveStatus() error {
	s, err := r.status(0)
	if err != nil {
		return err
	}
	return errors.Join(datadir.NoteJSON(r.path(statusFile), s), r.saveUsage())
}

// savedStatus returns what the robot in dir last said of itself.
func savedStatus(dir string) (s status.Status, err error) {
	data, err := os.ReadFile(filepath.Join(dir, statusFile))
	if os.IsNotExist(err) {
		return s, fmt.Errorf("no robot has run in %s yet", dir)
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("%s: %w", filepath.Join(dir, statusFile), err)
	}
	return s, nil
}
