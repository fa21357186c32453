package crawl

import (
	"fmt"
	"slices"
	"time"

	"sheaf/robotd/batch"
	"sheaf/robotd/polite"
)

// Progress is what the current crawl is doing, or what the last one did. A robot's status shows it.
type Progress struct {
	Coverage  *Coverage    `json:"coverage,omitempty"` // of the cycle; nil: none has begun since the start
	Forecast  *Forecast    `json:"forecast,omitempty"` // nil: nothing is left
	Addresses int          `json:"addresses"`          // addresses of the hosts with pages left
	Waiting   int          `json:"waiting"`            // hosts with something left to visit
	Visited   int          `json:"visited"`            // of those, right now
	LeftOut   int          `json:"left_out"`           // hosts that have no address, or rest because they fail
	Unreached []string     `json:"unreached"`          // some of those left out
	Pages     Rate         `json:"pages"`              // stored in this cycle since the start
	Bytes     Rate         `json:"bytes"`              // of the pages' answers, as transferred
	Modules   []Module     `json:"modules,omitempty"`
	PerHost   []HostStatus `json:"per_host,omitempty"` // as many as requested, the busiest first

	Next     time.Time `json:"-"` // when a host is visited next; zero: not known
	Troubles []string  `json:"-"` // why nothing goes on; empty: it does
}

// Coverage counts what became of a cycle's pages since the robot started. Together with the counts
// by host in the batches' manifests, it covers every page that was due.
type Coverage struct {
	Pages      int64                       `json:"pages"`      // taken in full
	Unchanged  int64                       `json:"unchanged"`  // revisits
	Answers    int64                       `json:"answers"`    // archived, and no page: redirects, "not found"
	Unverified int64                       `json:"unverified"` // of all these, from servers whose certificate does not verify
	Lost       map[string]map[string]int64 `json:"lost"`       // not collected, by kind and reason
	Left       int64                       `json:"left"`       // queued and not visited
	Why        map[string]int64            `json:"why"`        // of those, by what keeps them
	Later      int64                       `json:"later"`      // known, and put off to a later cycle for want of room
}

// Rate is a count and its growth.
type Rate struct {
	Total     int64 `json:"total"`
	PerMinute int64 `json:"per_minute"` // growth in the last minute
}

// Module is the load of a stage of the crawl: the length of its queue, its rate and its time, as
// paper 003 asks.
type Module struct {
	Name    string        `json:"name"`
	Queue   int           `json:"queue"`
	Workers int           `json:"workers"` // maximum number
	Passed  Rate          `json:"passed"`
	Busy    time.Duration `json:"busy"` // working time of all workers, in nanoseconds
	Each    time.Duration `json:"each"` // time for one item in the last minute, in nanoseconds
}

// HostState is what happens to a host now.
type HostState string

// States of a host.
const (
	Visiting HostState = "visiting"
	Waits    HostState = "waiting"
	LeftOut  HostState = "left out" // it has no address, or rests because it fails
	Done     HostState = "done"     // for this cycle
)

// HostStatus describes one host of the current crawl, for the status.
type HostStatus struct {
	Name    string    `json:"host"`
	Address string    `json:"address,omitempty"`
	State   HostState `json:"state"`
	Pages   Rate      `json:"pages"`
	Bytes   Rate      `json:"bytes"`
	Left    int64     `json:"left"` // pages known and not visited
	Next    time.Time `json:"next,omitzero"`
	Why     string    `json:"why,omitempty"` // why it is not visited now
}

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

// underWay is the reason for pages that are left while the crawl goes on.
const underWay = "later"

// AccountLeft adds to the ledger, for each host, how many pages are still queued and why, and how
// many due pages wait for a later cycle.
func (c *Crawl) AccountLeft() error {
	why := c.whyLeft(time.Now())
	var events []batch.Uncollected
	for _, h := range c.Hosts() {
		if n := h.Front.Left(); n > 0 {
			events = append(events, batch.Uncollected{Kind: batch.KindLeft, Reason: why(h), Host: h.Name, N: int64(n)})
		}
		if later := h.Later.Load(); later > 0 {
			events = append(events, batch.Uncollected{Kind: batch.KindLater, Reason: "room in the window", Host: h.Name, N: later})
		}
	}
	if len(events) == 0 {
		return nil
	}
	return c.parts.Records.Ledger.Add(events...)
}

// whyLeft returns a function that says why pages of a host are still queued.
func (c *Crawl) whyLeft(now time.Time) func(*Host) string {
	from, _ := c.parts.Manners.Admission.Opening(now)
	why := underWay
	switch {
	case c.parts.Manners.Admission.Paused():
		why = "paused"
	case c.parts.Manners.Admission.Short() != "":
		why = "room" // on the disk or in the spool
	case from.After(now), !c.hours.Round.End.IsZero() && !now.Before(c.hours.Round.End):
		why = "window"
	}
	return func(h *Host) string {
		if h.Unreached() {
			return "host" // it fails, or has no address
		}
		return why
	}
}

// Coverage sums up what became of the cycle's pages since the start.
func (c *Crawl) Coverage(now time.Time) Coverage {
	s := c.parts.Records.Tally.Coverage()
	s.Lost, s.Why = c.parts.Records.Ledger.Cycle(), make(map[string]int64)
	why := c.whyLeft(now)
	for _, h := range c.Hosts() {
		if n := int64(h.Front.Left()); n > 0 {
			s.Left += n
			reason := why(h)
			if reason == underWay {
				reason = "to come"
			}
			s.Why[reason] += n
		}
		s.Later += h.Later.Load()
	}
	return s
}
