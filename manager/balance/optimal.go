package balance

import (
	"math"
	"math/rand/v2"
)

// Optimal makes a plan from nothing. It finds prices, gives each host to the robot where it is
// cheapest at these prices, and improves the plan by repair and local search. If there are few
// hosts, it goes on with an iterated local search until the plan is proven to be near the best.
// It is deterministic.
func Optimal(c *Costs) Result {
	if c.Hosts == 0 {
		return Result{Plan: Plan{}}
	}
	d := newDual(c, math.Inf(1))
	steps := 120
	if c.small() {
		steps = 400
	}
	var r Result
	r.Prices, r.Bound = d.prove(steps)
	price := r.Prices
	s := newSearch(c, price, d.plan())
	s.descend(r.Bound)
	random := rand.New(rand.NewPCG(1, uint64(c.Hosts)))
	for _, part := range []int{20, 4, 1} { // a short search is usually enough; the bound tells
		if !c.small() || s.loads[s.top()] <= r.Bound*proven {
			break
		}
		s.iterate(r.Bound, c.rounds()/part, random)
		r.Bound = c.tighten(r.Bound, s.loads[s.top()], price)
	}
	r.Plan, r.Makespan = s.result()
	return r
}

// proven is the makespan, as a multiple of the bound, at which the search ends.
const proven = 1.002

// plan gives each host to the robot where it is cheapest at the best prices found.
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

// small reports whether there is time to look at all pairs of hosts.
func (c *Costs) small() bool { return c.Robots*c.Hosts <= 10_000 }

// tighten raises a lower bound, given the makespan T of a plan. A plan that ends within T uses no
// pair that costs more than T. So if the bound without such pairs is above T, no plan ends within
// T. impossible proves more, because it also tries where the largest hosts go.
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

// rounds is the number of rounds of iterated search that take some tenths of a second.
func (c *Costs) rounds() int { return min(20_000, 40_000_000/(c.Hosts*c.Hosts/c.Robots+1)) }
