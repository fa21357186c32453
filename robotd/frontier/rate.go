package frontier

import "math"

// Changes is what visits have shown about how often a page changes. Times are in days.
type Changes struct {
	Visits    int     // visits after the first
	Changed   int     // how many of them found a change
	TimeKept  float64 // sum of the intervals without a change
	TimeMoved float64 // sum of the intervals with one or more changes
}

// Observe adds a visit, some days after the one before.
func (c *Changes) Observe(days float64, changed bool) {
	c.Visits++
	if changed {
		c.Changed++
		c.TimeMoved += days
	} else {
		c.TimeKept += days
	}
}

// Fade halves the counts and times if Visits exceeds many, since pages change their habits.
func (c *Changes) Fade(many int) {
	if c.Visits > many {
		c.Visits, c.Changed = c.Visits/2, c.Changed/2
		c.TimeKept, c.TimeMoved = c.TimeKept/2, c.TimeMoved/2
	}
}

// Rate estimates the changes a day. It uses the estimator of Cho and Garcia-Molina, "Estimating
// frequency of change" (2003), −ln((n−X+0.5)/(n+0.5))/I, with times instead of counts, so that
// intervals may differ. I is the mean interval in which a change was found; such intervals are
// longer than others. Rate returns false before the second visit.
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

// NextVisits is the rule of the paper of 2000 (2.2, Fig. 5). It returns how often to visit a page
// tomorrow that was visited n times today, with a change found in hits of them: n−1 if hits is
// below n/2, n+1 if every visit found a change, otherwise n. It returns at least floor: by the
// paper's text a page with n=1 and no change would never be visited again.
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

// Daily is the state of NextVisits for a page.
type Daily struct {
	Times int // visits a day; 0: not known yet
	Hits  int // visits today that found a change
}

// Observe adds a visit. newDay says that it is the first of its day.
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

// EstimateRates estimates the changes a day of every page. How rates are spread over the pages is
// learned from all of them, as weights of a grid of rates (Laird, "Nonparametric maximum likelihood
// estimation of a mixing distribution", 1978, on a grid, smoothed). A page's rate is its
// expectation given this spread and the page's own visits, so that pages with few visits are
// treated like the others.
func EstimateRates(pages []Changes) []float64 {
	spread := learnSpread(pages)
	rates := make([]float64, len(pages))
	known := map[Changes]float64{} // many pages of a host are visited together
	for i, c := range pages {
		rate, ok := known[c]
		if !ok {
			rate = spread.expect(&c)
			known[c] = rate
		}
		rates[i] = rate
	}
	return rates
}
