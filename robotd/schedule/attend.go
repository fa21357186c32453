package schedule

import (
	"math"
	"time"
)

// WatchPolicy says how often a page is visited of whose changes somebody wants to hear.
// It is meant for delay, not for freshness (Allocate gives up pages that change faster than can be
// followed, and those are just the ones that are waited for): a page gets visitsPerChange visits for each change
// that is expected, so that a change waits for an eighth of the time between two of them on
// average, and where a server has no room for that, visits by the square roots of the rates, which
// makes the changes of all its pages together wait least.
type WatchPolicy struct {
	Least time.Duration // between two visits to a page
	Most  time.Duration // between two visits to a page that does not change
}

const (
	visitsPerChange = 4
	// A page of which little is known is taken, in part, for one that changes once a day.
	unknownRate, unknownVisits = 1, 2
	// A change is often followed by others: the visits after it come sooner, by this factor each
	// time, and go back to their pace by the other while nothing changes.
	hasten, calm = 4, 2
)

// Calm is the backoffFactor of a page that has not just changed.
const Calm = 1.0

// BackoffFactor gives the part of the interval that the next visit waits for, from the one before.
func (a WatchPolicy) BackoffFactor(backoffFactor float64, changed bool) float64 {
	if changed {
		return max(backoffFactor/hasten, float64(a.Least)/float64(max(a.Most, a.Least)))
	}
	return min(backoffFactor*calm, Calm)
}

// rate is the estimated changes a day.
func (a WatchPolicy) rate(c *Changes) float64 {
	rate, _ := c.Rate()
	n := float64(c.Visits)
	return (n*rate + unknownVisits*unknownRate) / (n + unknownVisits)
}

// Intervals gives for each page the time between two visits, where the server has room
// for so many visits a day to all of them.
func (a WatchPolicy) Intervals(pages []Changes, backoffFactor []float64, room float64) []time.Duration {
	rates := make([]float64, len(pages))
	visits := make([]float64, len(pages))
	sum := 0.0
	least, most := a.Least.Hours()/24, max(a.Most, a.Least).Hours()/24
	for i := range pages {
		rates[i] = a.rate(&pages[i])
		base := min(max(1/(visitsPerChange*rates[i]), least), most)
		visits[i] = 1 / max(base*backoffFactor[i], least)
		sum += visits[i]
	}
	if sum > room {
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

// Next is when the visit after one of the given time should come: an interval later, or, where that
// leaves a choice of hours, in the quicker ones near that, as Begin chooses them.
func (p Plan) Next(h *Hours, last time.Time, interval time.Duration) time.Time {
	const slack = 4 // part of the interval by which a visit may come earlier or later
	if interval < 2*time.Hour || h.Known() == 0 {
		return last.Add(interval)
	}
	p.Every = interval
	early, late := last.Add(interval-interval/slack), last.Add(interval+interval/slack)
	if at := p.Begin(h, early, late, 0, false); at.After(early) {
		return at
	}
	return last.Add(interval)
}
