package frontier

import (
	"math"
	"strconv"
	"strings"
	"time"
)

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

// spread says how rates of change are spread over pages: the weight of each rate of the grid. The
// weights add up to 1.
type spread [gridSize]float64

// The grid has rates from one change in some ten years to some hundreds a day, in steps
// of a third.
const (
	gridSize  = 48
	gridLeast = -8.0 // natural logarithm of the least rate, in changes a day
	gridStep  = 0.3  // between neighbours, in natural logarithms
)

// grid returns the n-th rate of the grid, in changes a day.
func grid(n int) float64 { return math.Exp(gridLeast + gridStep*float64(n)) }

const (
	learnFrom   = 2000 // pages from which a spread is learned, at most
	learnRounds = 12
	learnPrior  = 4 // number of pages for which the assumed spread counts
)

// assumed is the spread of a page about which nothing is known: around one change in five days,
// with a wide margin.
func assumed() (s spread) {
	const middle, width = -1.6, 2.2
	sum := 0.0
	for n := range s {
		far := (gridLeast + gridStep*float64(n) - middle) / width
		s[n] = math.Exp(-far * far / 2)
		sum += s[n]
	}
	for n := range s {
		s[n] /= sum
	}
	return s
}

// learnSpread learns the spread from pages by the expectation-maximization algorithm.
func learnSpread(pages []Changes) spread {
	prior := assumed()
	s := prior
	step := max(1, len(pages)/learnFrom)
	var likely []spread
	for i := 0; i < len(pages); i += step {
		if pages[i].Visits > 0 {
			likely = append(likely, pages[i].likelihood())
		}
	}
	if len(likely) == 0 {
		return s
	}
	for range learnRounds {
		var next spread
		for k := range likely {
			p := s.given(&likely[k])
			for n := range next {
				next[n] += p[n]
			}
		}
		total := float64(len(likely)) + learnPrior
		for n := range next { // smoothed over neighbours: few pages would make it jagged
			low, high := next[max(n-1, 0)], next[min(n+1, gridSize-1)]
			s[n] = ((low+2*next[n]+high)/4 + learnPrior*prior[n]) / total
		}
	}
	return s
}

// expect returns the expected rate of a page, as a geometric mean: rates differ by factors.
func (s *spread) expect(c *Changes) float64 {
	likely := c.likelihood()
	p := s.given(&likely)
	mean := 0.0
	for n := range p {
		mean += p[n] * (gridLeast + gridStep*float64(n))
	}
	return math.Exp(mean)
}

// given returns the probability of each rate for a page whose visits have this likelihood.
func (s *spread) given(likely *spread) (p spread) {
	sum := 0.0
	for n := range p {
		p[n] = s[n] * likely[n]
		sum += p[n]
	}
	if sum == 0 {
		return *s
	}
	for n := range p {
		p[n] /= sum
	}
	return p
}

// likelihood returns how likely the visits' findings are at each rate of the grid, up to a factor.
// A page that changes at random does not change within t days with probability e^−rate·t. The
// intervals with a change all count as long as their mean.
func (c *Changes) likelihood() (p spread) {
	interval := 0.0
	if c.Changed > 0 {
		interval = c.TimeMoved / float64(c.Changed)
	}
	var logs spread
	most := math.Inf(-1)
	for n := range logs {
		rate := grid(n)
		logs[n] = -rate * c.TimeKept
		if c.Changed > 0 {
			logs[n] += float64(c.Changed) * math.Log(-math.Expm1(-rate*interval))
		}
		most = max(most, logs[n])
	}
	for n := range p {
		p[n] = math.Exp(logs[n] - most)
	}
	return p
}

// History is what the visits to a page have shown about its changes.
type History struct {
	Last time.Time // last visit that found the page
	Changes
	Daily
}

// appendTo writes a history in some 20 bytes; times are minutes in base 36. It writes nothing for a
// page without a history.
func (h History) appendTo(b []byte) []byte {
	if h.Last.IsZero() {
		return b
	}
	b = append(b, " ~"...)
	for i, n := range []int64{
		h.Last.Unix() / 60, int64(h.Visits), int64(h.Changed), minutes(h.TimeKept), minutes(h.TimeMoved), int64(h.Times), int64(h.Hits),
	} {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 36)
	}
	return b
}

const minutesADay = 24 * 60

func minutes(days float64) int64 { return int64(days*minutesADay + 0.5) }

// parseHistory parses the result of appendTo, without the space. It returns no history for any
// other text.
func parseHistory(text string) (h History) {
	text, _, _ = strings.Cut(text, " ")
	text, ok := strings.CutPrefix(text, "~")
	fields := strings.Split(text, ",")
	var n [7]int64
	if !ok || len(fields) != len(n) {
		return h
	}
	for i, f := range fields {
		var err error
		if n[i], err = strconv.ParseInt(f, 36, 64); err != nil || n[i] < 0 {
			return h
		}
	}
	h.Last = time.Unix(n[0]*60, 0).UTC()
	h.Visits, h.Changed = int(n[1]), int(n[2])
	h.TimeKept, h.TimeMoved = float64(n[3])/minutesADay, float64(n[4])/minutesADay
	h.Times, h.Hits = int(n[5]), int(n[6])
	return h
}
