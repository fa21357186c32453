package robotd

import (
	"time"

	"sheaf/robotd/polite"
	"sheaf/robotd/status"
)

// load is what is left to do at one address.
type load struct {
	status.Load
	most int64 // pages of its largest host
}

// weigh adds a host to the load of its address.
func (c *crawl) weigh(loads map[string]*load, h status.Host, p *polite.Place) {
	key := p.Slot.String()
	l := loads[key]
	if l == nil {
		// A run's pages share one interval; each takes the time that answers take.
		l = &load{Load: status.Load{Address: key, Each: p.Interval/time.Duration(c.cfg.Run.Pages) + c.fetchTime()}}
		loads[key] = l
	}
	left := max(h.Left, 1) // it is in the gate for something
	l.Pages += left
	if left > l.most {
		l.most, l.Host = left, h.Name
	}
}

// fetchTime is how long a fetch takes on average.
func (c *crawl) fetchTime() time.Duration {
	n := c.fetching.passed.Load()
	if n == 0 {
		return 0
	}
	return time.Duration(c.fetching.busy.Load() / n)
}

// forecast says when the crawl has visited what it knows.
func (c *crawl) forecast(loads map[string]*load, s *status.Status) *status.Forecast {
	all := make([]status.Load, 0, len(loads))
	for _, l := range loads {
		all = append(all, l.Load)
	}
	floor := c.fetchTime() / time.Duration(c.cfg.Concurrency)
	if limit := c.cfg.Limits.Bandwidth; limit > 0 && s.Pages.Total > 0 {
		floor = max(floor, time.Duration(float64(s.Bytes.Total)/float64(s.Pages.Total)/float64(limit)*float64(time.Second)))
	}
	from, _ := c.planned(s.At) // a pause counts as if it ended now
	return status.Predict(all, floor, from, c.plan.Window)
}
