package balance

import (
	"math"
	"math/rand/v2"
)

// Optimal plans from nothing: prices, each host where it is cheapest at these
// prices, repair down to the bound, local search, and where there are few hosts
// an iterated local search besides, until the plan is proven to be near the best. It is deterministic.
func Optimal(c *Costs) Result {
	if c.Hosts == 0 {
		return Result{Plan: Plan{}}
	}
	d := newDual(c, math.Inf(1))
	steps := 120
	if c.small() {
		steps = 400
	}
	price := d.climb(steps)
	r := Result{Prices: price, Bound: max(overAll(c, price, math.Inf(1)), longest(c))}
	s := newSearch(c, price, d.plan())
	s.descend(r.Bound)
	random := rand.New(rand.NewPCG(1, uint64(c.Hosts)))
	for _, part := range []int{20, 4, 1} { // mostly little search is enough, which the bound tells
		if !c.small() || s.loads[s.top()] <= r.Bound*proven {
			break
		}
		s.iterate(r.Bound, c.rounds()/part, random)
		r.Bound = c.tighten(r.Bound, s.loads[s.top()], price)
	}
	r.Plan, r.Makespan = s.result()
	return r
}

// proven is how close to the bound a plan is that no more search is spent on.
const proven = 1.002

// plan gives each host to where it is cheapest at the best prices found.
func (d *dual) plan() Plan {
	copy(d.price, d.bestPrice)
	p := make(Plan, d.c.Hosts)
	parallel(len(p), func(_, from, to int) {
		for j := from; j < to; j++ {
			i, _ := d.cheapest(j)
			p[j] = int(i)
		}
	})
	return p
}

// small reports whether there is time to look at every pair of hosts.
func (c *Costs) small() bool { return c.Robots*c.Hosts <= 10_000 }

// tighten raises a bound by leaving out pairs: a plan that ends within T uses no
// pair that costs more than T, so where the bound without such pairs is above T,
// no plan ends within T. The bound of the whole is known, and so is a plan.
// Where that is not enough the places of the largest hosts are tried, too (impossible).
func (c *Costs) tighten(bound, makespan float64, price []float64) float64 {
	if !c.small() || c.keep < c.Robots {
		return bound
	}
	low, high := bound, makespan*(1-1e-9)
	for range 9 {
		t := (low + high) / 2
		if c.impossible(t, price, 200+2_000_000/(c.Robots*c.Hosts)) {
			low = t
		} else {
			high = t
		}
	}
	return low
}

// rounds is how many rounds of iterated search there is time for: some tenths of a second.
func (c *Costs) rounds() int { return min(20_000, 40_000_000/(c.Hosts*c.Hosts/c.Robots+1)) }
