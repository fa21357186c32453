package balance

import (
	"math"
	"slices"
)

// apartBound returns by how much the bound of overAll rises because items of one set must be at
// different robots. The k items of a set cost at least as much as its cheapest item costs at the k
// cheapest robots.
func apartBound(c *Costs, price []float64, apart [][]int) (more float64) {
	counted := map[int]bool{}
	for _, set := range apart {
		if slices.ContainsFunc(set, func(n int) bool { return counted[n] }) {
			continue // only one of two sets may count a common item
		}
		for _, n := range set {
			counted[n] = true
		}
		at, alone := cheapestOf(c, set), 0.0
		for i := range at {
			at[i] *= price[i]
		}
		slices.Sort(at)
		for _, n := range set {
			ms := cheapestOf(c, []int{n})
			for i := range ms {
				ms[i] *= price[i]
			}
			alone += slices.Min(ms)
		}
		together := 0.0
		for k := range set {
			together += at[k]
		}
		more += max(0, together-alone)
	}
	return more
}

// longestApart returns a lower bound on the makespan: of k items of a set, one goes to a robot
// that is not among the k-1 cheapest ones.
func longestApart(c *Costs, apart [][]int) (most float64) {
	for _, set := range apart {
		at := cheapestOf(c, set)
		slices.Sort(at)
		most = max(most, at[len(set)-1])
	}
	return most
}

// cheapestOf returns for each robot the cost of the set's cheapest item.
func cheapestOf(c *Costs, set []int) []float64 {
	least, ms := slices.Repeat([]float64{math.Inf(1)}, c.Robots), make([]float64, c.Robots)
	for _, n := range set {
		clear(ms)
		c.row(n, ms)
		for i, cost := range ms {
			if cost < least[i] && (c.excluded == nil || !c.excluded(i, n)) {
				least[i] = cost
			}
		}
	}
	return least
}
