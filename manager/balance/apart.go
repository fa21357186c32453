package balance

import (
	"math"
	"slices"
)

// layerEnough is enough for one layer of items: what one layer lacks, the next cannot make good.
const layerEnough = 1.05

// ReplanApart is Replan if some items, such as the shares or copies of one host, must go to
// different robots. Each set in apart names such items. First it plans the first items of all
// sets together and leaves the others where they are; then it plans the second items, and so on.
// So two items of a set share a robot only if they did so in from.
func ReplanApart(c *Costs, from Plan, apart [][]int) (Result, error) {
	if len(apart) == 0 {
		return Replan(c, from)
	}
	p := slices.Clone(from)
	for len(p) < c.Hosts {
		p = append(p, -1)
	}
	layer, sets := layers(c.Hosts, apart)
	var r Result
	for pass := range 2 {
		for k := range slices.Max(layer) + 1 {
			var items []int
			for n, l := range layer {
				if l == k {
					items = append(items, n)
				}
			}
			if err := replanSome(c, p, items, sets); err != nil {
				return Result{}, err
			}
		}
		if pass == 0 {
			d := newDual(c, math.Inf(1))
			r.Prices = d.climb(120)
			r.Bound = max(overAll(c, r.Prices)+apartBound(c, r.Prices, apart), c.longest, longestApart(c, apart))
		}
		if r.Makespan = p.Makespan(c); r.Makespan <= r.Bound*(layerEnough+0.005) {
			break
		}
	}
	r.Plan = p
	return r, nil
}

// apartBound returns by how much the bound of overAll rises because the items of a set are at
// different robots. The k items of a set cost at least as much as its cheapest item costs at the
// k cheapest robots.
func apartBound(c *Costs, price []float64, apart [][]int) (more float64) {
	counted := map[int]bool{}
	for _, set := range apart {
		if slices.ContainsFunc(set, func(n int) bool { return counted[n] }) {
			continue // only one of two sets may count a common item
		}
		for _, n := range set {
			counted[n] = true
		}
		at, alone := make([]float64, c.Robots), 0.0
		for i := range at {
			at[i] = cheapestOf(c, i, set) * price[i]
		}
		slices.Sort(at)
		for _, n := range set {
			least := math.Inf(1)
			for i := range c.Robots {
				least = min(least, c.At(i, n)*price[i])
			}
			alone += least
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
		at := make([]float64, c.Robots)
		for i := range at {
			at[i] = cheapestOf(c, i, set)
		}
		slices.Sort(at)
		most = max(most, at[len(set)-1])
	}
	return most
}

// cheapestOf returns the cost of the cheapest item of a set at robot i.
func cheapestOf(c *Costs, i int, set []int) float64 {
	least := math.Inf(1)
	for _, n := range set {
		least = min(least, c.At(i, n))
	}
	return least
}

// layers returns each item's place in its set (the highest, if it is in several sets) and the
// sets of each item.
func layers(items int, apart [][]int) (layer []int, sets map[int][][]int) {
	layer, sets = make([]int, items), map[int][][]int{}
	for _, set := range apart {
		for k, n := range set {
			layer[n] = max(layer[n], k)
			sets[n] = append(sets[n], set)
		}
	}
	return layer, sets
}

// replanSome plans some items and leaves the others where they are. For each robot, the others
// are one more item that only this robot can have.
func replanSome(c *Costs, p Plan, items []int, sets map[int][][]int) error {
	mine := make(map[int]bool, len(items))
	for _, n := range items {
		mine[n] = true
	}
	base := make([]float64, c.Robots)
	for n, i := range p {
		if i >= 0 && !mine[n] {
			base[i] += c.At(i, n)
		}
	}
	taken := func(i, n int) bool {
		for _, set := range sets[n] {
			for _, other := range set {
				if other != n && p[other] == i {
					return true
				}
			}
		}
		return false
	}
	some, err := NewCosts(c.Robots, len(items)+c.Robots, func(i, k int) float64 {
		switch {
		case k >= len(items) && k-len(items) == i:
			return base[i]
		case k >= len(items) || taken(i, items[k]):
			return math.Inf(1)
		}
		return c.At(i, items[k])
	})
	if err != nil {
		return err
	}
	start := make(Plan, len(items)+c.Robots)
	for k, n := range items {
		start[k] = p[n]
	}
	for i := range c.Robots {
		start[len(items)+i] = i
	}
	r, err := replan(some, start, layerEnough, some.rounds()/32, false)
	if err != nil {
		return err
	}
	for k, n := range items {
		p[n] = r.Plan[k]
	}
	return nil
}
