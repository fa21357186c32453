package frontier

import "math"

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
