package revisit

import (
	"math"
	"time"

	"sheaf/robotd/config"
	"sheaf/robotd/frontier"
)

// WatchPolicy says how often to visit pages whose changes somebody waits for. It aims for a short
// delay, not for freshness: Allocate gives up pages that change too fast to follow, but consumers
// wait for just these pages. A page gets visitsPerChange visits for each expected change, so that
// on average a change waits for an eighth of the time between two changes. If the server has no
// room for that, the visits are in proportion to the square roots of the rates, which minimizes the
// total delay of its pages' changes. With the rule Paper, a page gets the visits a day that
// NextVisits gives it instead.
type WatchPolicy struct {
	By    config.Rule
	Least time.Duration // shortest time between two visits to a page
	Most  time.Duration // longest time between two visits to a page, used when it does not change
}

const (
	visitsPerChange = 4
	// A page with few visits is partly treated like one that changes once a day.
	unknownRate, unknownVisits = 1, 2
	// Changes often come in groups. After a change the interval is divided by hasten; after a visit
	// without a change it is multiplied by calm, up to the usual interval.
	hasten, calm = 4, 2
)

// Calm is the backoff factor of a page that has not changed lately.
const Calm = 1.0

// BackoffFactor returns the factor for the interval before the next visit, from the current factor
// and whether the last visit found a change.
func (a WatchPolicy) BackoffFactor(backoffFactor float64, changed bool) float64 {
	if changed {
		return max(backoffFactor/hasten, float64(a.Least)/float64(max(a.Most, a.Least)))
	}
	return min(backoffFactor*calm, Calm)
}

// rate returns the estimated number of changes a day.
func (a WatchPolicy) rate(c *frontier.Changes) float64 {
	rate, _ := c.Rate()
	n := float64(c.Visits)
	return (n*rate + unknownVisits*unknownRate) / (n + unknownVisits)
}

// Watched is what is known of a watched page after a visit.
type Watched struct {
	frontier.Changes
	Times         int     // visits a day by NextVisits
	BackoffFactor float64 // see WatchPolicy.BackoffFactor
}

// Intervals returns, for each page, the time until its next visit. room is the number of visits a
// day to all the pages that the server has room for.
func (a WatchPolicy) Intervals(pages []Watched, room float64) []time.Duration {
	rates := make([]float64, len(pages))
	visits := make([]float64, len(pages))
	sum := 0.0
	least, most := a.Least.Hours()/24, max(a.Most, a.Least).Hours()/24
	for i := range pages {
		rates[i] = a.rate(&pages[i].Changes)
		base := min(max(1/(visitsPerChange*rates[i]), least), most) * pages[i].BackoffFactor
		if a.By == config.Paper {
			base = 1 / float64(max(pages[i].Times, 1))
		}
		visits[i] = 1 / max(base, least)
		sum += visits[i]
	}
	switch {
	case sum <= room:
	case a.By == config.Paper: // which does not say what to do then: each page loses the same share
		for i := range visits {
			visits[i] *= room / sum
		}
	default:
		for i, n := range AllocateBySquareRoot(rates, room) {
			visits[i] = min(visits[i], n)
		}
	}
	intervals := make([]time.Duration, len(pages))
	for i, n := range visits {
		intervals[i] = time.Duration(math.Min(1/n, most) * float64(24*time.Hour))
	}
	return intervals
}

// NextVisit returns the time of the visit after last: an interval later or, if that leaves a choice
// of hours, near that time in an hour when the server is fast (see Begin).
func NextVisit(p config.Plan, h *ServerHours, last time.Time, interval time.Duration) time.Time {
	const slack = 4 // part of the interval by which a visit may come earlier or later
	if interval < 2*time.Hour || h.Known() == 0 {
		return last.Add(interval)
	}
	p.Every = interval
	early, late := last.Add(interval-interval/slack), last.Add(interval+interval/slack)
	if at := Begin(p, h, early, late, 0, false); at.After(early) {
		return at
	}
	return last.Add(interval)
}
