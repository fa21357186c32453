package balance

import (
	"math"
	"slices"
)

// WithChains returns the costs for hosts that also have chains. The chain of a host at a robot is
// the time in ms that its visits take one after the other, with the intervals between them. It
// runs beside the robot's other hosts, so it adds nothing to the robot's sum; but no robot ends
// before its longest chain does. The new costs exclude the pairs whose chain would end after the
// rest of the night, and their lower bound includes the chains.
func (c *Costs) WithChains(chain Func) (*Costs, error) {
	shortest, most := c.longestChain(chain)
	if shortest == 0 || math.IsInf(shortest, 1) {
		return c, c.stopped()
	}
	with := *c
	limit := shortest * enough
	if most > limit {
		d := newDual(c)
		d.climb(60)
		limit = max(limit, d.best*enough)
	}
	with.excluded = func(i, j int) bool { return chain(i, j) > limit }
	if most > limit { // some candidates are excluded
		if err := with.choose(); err != nil {
			return nil, err
		}
	}
	with.longest, with.chain = max(with.longest, shortest), shortest
	return &with, nil
}

// longestChain returns two lengths in ms. shortest: of the shortest chain that each host has at any
// robot, the longest; no plan avoids it. most: the longest chain of all candidates.
func (c *Costs) longestChain(chain Func) (shortest, most float64) {
	unavoidable, longest := make([]float64, workers()), make([]float64, workers())
	parallel(c.Hosts, func(w, from, to int) {
		for j := from; j < to; j++ {
			if j%1024 == 0 && c.stopped() != nil {
				return
			}
			least := math.Inf(1)
			robots, costs := c.candidates(j)
			for k, i := range robots {
				if !math.IsInf(costs[k], 1) {
					ms := chain(int(i), j)
					least, longest[w] = min(least, ms), max(longest[w], ms)
				}
			}
			if least <= unavoidable[w] {
				continue // other robots could only make it shorter
			}
			for i := 0; i < c.Robots && least > unavoidable[w]; i++ {
				if !math.IsInf(c.At(i, j), 1) {
					least = min(least, chain(i, j))
				}
			}
			unavoidable[w] = max(unavoidable[w], least)
		}
	})
	return slices.Max(unavoidable), slices.Max(longest)
}
