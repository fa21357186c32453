package balance

import (
	"math"
	"slices"
)

// layerEnough is the makespan, as a multiple of the bound, that each layer of items aims at. Later
// layers cannot make up for what an earlier one lacks.
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
	return r, c.stopped()
}

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

// replanSome plans some items and leaves the others where they are. One more item for each robot,
// which only this robot can have, stands for the robot's other items.
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
	some, err := c.beside(p, items, base, sets)
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

// beside returns the costs of some items, and of a further item for each robot: only this robot can
// have it, at the cost in base. An item costs +Inf at a robot to which p gives another item of one
// of its sets.
func (c *Costs) beside(p Plan, items []int, base []float64, sets map[int][][]int) (*Costs, error) {
	taken := func(n int, at func(i int)) {
		for _, set := range sets[n] {
			for _, other := range set {
				if i := p[other]; other != n && i >= 0 {
					at(i)
				}
			}
		}
	}
	cost := func(i, k int) float64 {
		switch {
		case k >= len(items) && k-len(items) == i:
			return base[i]
		case k >= len(items):
			return math.Inf(1)
		}
		ms := c.cost(i, items[k])
		taken(items[k], func(at int) {
			if at == i {
				ms = math.Inf(1)
			}
		})
		return ms
	}
	row := func(k int, ms []float64) {
		if k >= len(items) {
			for i := range ms {
				ms[i] = math.Inf(1)
			}
			ms[k-len(items)] = base[k-len(items)]
			return
		}
		c.row(items[k], ms)
		taken(items[k], func(at int) { ms[at] = math.Inf(1) })
	}
	return Pairs{Robots: c.Robots, Hosts: len(items) + c.Robots, Stop: c.stop, Cost: cost, Row: row, excluded: func(i, k int) bool {
		return k < len(items) && c.excluded != nil && c.excluded(i, items[k])
	}}.Costs()
}
