package schedule

import "math"

// Changes is what visits have told of how often a page changes. Times are in days.
type Changes struct {
	Visits    int     // after the first
	Changed   int     // of them met a change
	TimeKept  float64 // sum of the intervals over which the page stayed the same
	TimeMoved float64 // sum of those in which it changed, once or more
}

// Observe takes in a visit some days after the one before.
func (c *Changes) Observe(days float64, changed bool) {
	c.Visits++
	if changed {
		c.Changed++
		c.TimeMoved += days
	} else {
		c.TimeKept += days
	}
}

// Fade halves what is known once it rests on many visits: pages change their ways.
func (c *Changes) Fade(many int) {
	if c.Visits > many {
		c.Visits, c.Changed = c.Visits/2, c.Changed/2
		c.TimeKept, c.TimeMoved = c.TimeKept/2, c.TimeMoved/2
	}
}

// Naive is changes met by time: too low, since a page that changed twice between two
// visits looks like one that changed once.
func (c *Changes) Naive() float64 {
	if c.TimeKept+c.TimeMoved <= 0 {
		return 0
	}
	return float64(c.Changed) / (c.TimeKept + c.TimeMoved)
}

// Rate estimates the changes a day: the estimator of Cho and Garcia-Molina,
// "Estimating frequency of change" (2003), −ln((n−X+0.5)/(n+0.5))/I, with time for
// counts, so that intervals need not be equal. I is then the mean of the intervals
// that met a change: those are the longer ones. It is false before the second visit.
func (c *Changes) Rate() (float64, bool) {
	total := c.TimeKept + c.TimeMoved
	if c.Visits == 0 || total <= 0 {
		return 0, false
	}
	half := total / float64(c.Visits) / 2
	interval := 2 * half
	if c.Changed > 0 {
		interval = c.TimeMoved / float64(c.Changed)
	}
	return math.Log((total+half)/(c.TimeKept+half)) / interval, true
}

// NextVisits is the rule of the paper of 2000 (2.2, Fig. 5): how often a day to visit a
// page tomorrow that was visited n times today and had changed at hits of them: n−1
// below n/2 hits, n+1 where every visit met a change, else n. Less than floor visits
// are never made: by the paper's text a page at n=1 without a hit would never be
// visited again.
func NextVisits(n, hits, floor int) int {
	next := n
	switch {
	case n > 0 && hits >= n:
		next = n + 1
	case 2*hits < n:
		next = n - 1
	}
	return max(next, floor, 1)
}

// Daily is the state of the rule of the paper: how often a day a page is visited, and how often
// it had changed today.
type Daily struct {
	Times int // a day; 0: not known yet
	Hits  int // today
}

// Observe takes in a visit; newDay tells that it is the first of its day.
func (d *Daily) Observe(newDay, changed bool) {
	if d.Times == 0 {
		d.Times = 1
	} else if newDay {
		d.Times, d.Hits = NextVisits(d.Times, d.Hits, 1), 0
	}
	if changed {
		d.Hits++
	}
}

// EstimateRates estimates every page's changes a day. A page of which little is known
// is taken, in part, for one like the others: two visits' worth of their mean.
func EstimateRates(pages []Changes) []float64 {
	const prior = 2
	var all Changes
	for i := range pages {
		all.Visits += pages[i].Visits
		all.Changed += pages[i].Changed
		all.TimeKept += pages[i].TimeKept
		all.TimeMoved += pages[i].TimeMoved
	}
	mean, known := all.Rate()
	if !known {
		mean = 1
	}
	rates := make([]float64, len(pages))
	for i := range pages {
		rate, _ := pages[i].Rate()
		n := float64(pages[i].Visits)
		rates[i] = (n*rate + prior*mean) / (n + prior)
	}
	return rates
}
