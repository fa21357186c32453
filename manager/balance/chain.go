package balance

import "math"

// WithChains returns the costs for hosts that also have chains. The chain of a host at a robot is
// the time in ms that its visits take one after the other, with the intervals between them. It
// runs beside the robot's other hosts, so it adds nothing to the robot's sum; but no robot ends
// before its longest chain does. The new costs exclude the pairs whose chain would end after the
// rest of the night, and their lower bound includes the chains.
func (c *Costs) WithChains(chain Func) (*Costs, error) {
	shortest, most := 0.0, 0.0
	for j := range c.Hosts {
		least := math.Inf(1)
		for i := range c.Robots {
			if math.IsInf(c.all(i, j), 1) {
				continue
			}
			ms := chain(i, j)
			least, most = min(least, ms), max(most, ms)
		}
		shortest = max(shortest, least)
	}
	if shortest == 0 || math.IsInf(shortest, 1) {
		return c, nil
	}
	limit := shortest * enough
	if most > limit {
		limit = max(limit, overAll(c, newDualPrices(c), math.Inf(1))*enough)
	}
	all := c.all
	with, err := NewCosts(c.Robots, c.Hosts, func(i, j int) float64 {
		if chain(i, j) > limit {
			return math.Inf(1)
		}
		return all(i, j)
	})
	if err == nil {
		with.longest = shortest
	}
	return with, err
}

func newDualPrices(c *Costs) []float64 { return newDual(c, math.Inf(1)).climb(60) }
