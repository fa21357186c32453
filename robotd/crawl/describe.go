package crawl

import (
	"fmt"
	"slices"
	"time"

	"sheaf/robotd/polite"
)

// maxUnreached is how many of the hosts that are left out are named.
const maxUnreached = 5

// describe adds the state of the crawl to s. hosts is how many hosts to describe; negative: all.
func (c *Crawl) describe(s *Progress, now time.Time, hosts int) {
	at := c.describeGate(s, now)
	loads := make(map[string]*Load)
	for _, h := range c.Hosts() {
		place := at[h.Name]
		d := h.Describe(place)
		if d.State == Waits || d.State == LeftOut {
			d.Why = c.whyWaits(h, place, now)
		}
		s.Pages.Total += d.Pages.Total
		s.Pages.PerMinute += d.Pages.PerMinute
		s.Bytes.Total += d.Bytes.Total
		s.Bytes.PerMinute += d.Bytes.PerMinute
		switch {
		case h.Unreached():
			s.LeftOut++
			if len(s.Unreached) < maxUnreached {
				s.Unreached = append(s.Unreached, h.Name)
			}
		case place != nil:
			c.addLoad(loads, d, place)
		}
		if hosts != 0 {
			s.PerHost = append(s.PerHost, d)
		}
	}
	slices.Sort(s.Unreached)
	s.Addresses = len(loads)
	s.Forecast = c.forecast(loads, s, now)
	busiest(s.PerHost)
	if hosts >= 0 && len(s.PerHost) > hosts {
		s.PerHost = s.PerHost[:hosts]
	}
}

// describeGate adds the state of the gate and of the stages to s. It returns the hosts' places in
// the gate, by name.
func (c *Crawl) describeGate(s *Progress, now time.Time) map[string]*polite.Place {
	places := c.parts.Manners.Gate.Survey()
	s.Waiting = len(places)
	at := make(map[string]*polite.Place, len(places))
	due, late := 0, 0
	open := c.parts.Manners.Gate.IsOpen(now)
	for i := range places {
		p := &places[i]
		at[p.Host] = p
		switch {
		case p.Out:
			s.Visited++
			continue
		case open && !p.At.After(now):
			due++
			if now.Sub(p.At) > c.patience() {
				late++
			}
		}
		if s.Next.IsZero() || p.At.Before(s.Next) {
			s.Next = p.At
		}
	}
	c.describeStages(s, now, due, late)
	return at
}

// whyWaits says in a few words why a host is not visited now. p is its place in the gate; nil: it
// has none, since it has no address.
func (c *Crawl) whyWaits(h *Host, p *polite.Place, now time.Time) string {
	why := h.WhyWaits()
	switch {
	case p == nil:
		return "no address"
	case h.rest.rests.Load() && why != "":
		return why
	case !c.parts.Manners.Gate.IsOpen(now):
		return c.parts.Manners.Admission.WhyClosed(now)
	case !p.At.After(now):
		return "no worker free"
	case p.Asked.After(now) && why != "":
		return why
	case p.Asked.After(now):
		return "Crawl-delay" // or what an earlier run has promised
	case p.Interval > p.Usual:
		return fmt.Sprintf("slowed to %s", p.Interval.Round(time.Second))
	}
	return fmt.Sprintf("interval %s", p.Interval.Round(time.Millisecond))
}

// addLoad adds a host to the load of its address.
func (c *Crawl) addLoad(loads map[string]*Load, h HostStatus, p *polite.Place) {
	key := p.Slot.String()
	l := loads[key]
	if l == nil {
		// The pages of a run share one interval; each takes the time of a fetch.
		l = &Load{Address: key, Each: p.Interval/time.Duration(c.hours.Pace.RunPages(h.Name)) + c.fetchTime()}
		loads[key] = l
	}
	left := max(h.Left, 1) // a host in the gate has something left
	l.Pages += left
	if left > l.most {
		l.most, l.Host = left, h.Name
	}
}

// forecast says when the pages that are known will have been visited.
func (c *Crawl) forecast(loads map[string]*Load, s *Progress, now time.Time) *Forecast {
	all := make([]Load, 0, len(loads))
	for _, l := range loads {
		all = append(all, *l)
	}
	floor := c.fetchTime() / time.Duration(c.parts.Settings.Concurrency)
	if limit := c.parts.Settings.Limits.Bandwidth; limit > 0 && s.Pages.Total > 0 {
		floor = max(floor, time.Duration(float64(s.Bytes.Total)/float64(s.Pages.Total)/float64(limit)*float64(time.Second)))
	}
	from, _ := c.parts.Manners.Admission.Planned(now) // as if a pause ended now
	return predict(all, floor, from, c.parts.Plan.Window)
}

// describeStages adds the state of the stages to s. due is how many hosts may be visited now, and
// late how many of these have been due for long.
func (c *Crawl) describeStages(s *Progress, now time.Time, due, late int) {
	extracting, storing := len(c.extracting.waiting), len(c.storing.waiting)
	for _, m := range []struct {
		*stage
		queue int
		late  int // how many of the queue may have waited for long
	}{{c.fetching, due, late}, {c.extracting, extracting, extracting}, {c.storing, storing, storing}} {
		s.Modules = append(s.Modules, m.describe(m.queue))
		if m.stuck(m.late, c.began, c.patience(), now) {
			s.Troubles = append(s.Troubles, fmt.Sprintf("module %s: %d wait and nothing has passed for %v", m.name, m.late, c.patience()))
		}
	}
}

// patience returns how long a stage may pass nothing while something waits. Each fetch ends within
// that time.
func (c *Crawl) patience() time.Duration {
	return c.parts.Settings.Page.Timeout + c.parts.Settings.Page.Stall
}

// fetchTime returns how long a fetch takes on average.
func (c *Crawl) fetchTime() time.Duration {
	n := c.fetching.passed.Load()
	if n == 0 {
		return 0
	}
	return time.Duration(c.fetching.busy.Load() / n)
}
