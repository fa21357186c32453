package balance

import (
	"math"
	"math/rand/v2"
)

// Optimal plans from nothing: prices, each host where it is cheapest at these
// prices, repair down to the bound, local search, and where there are few hosts
// an iterated local search besides. It is deterministic.
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
	if c.small() {
		s.iterate(r.Bound, c.rounds(), rand.New(rand.NewPCG(1, uint64(c.Hosts))))
	}
	r.Plan, r.Makespan = s.result()
	r.Bound = c.tighten(r.Bound, r.Makespan)
	return r
}

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
func (c *Costs) tighten(bound, makespan float64) float64 {
	if !c.small() {
		return bound
	}
	low, high := bound, makespan
	for range 12 {
		t := (low + high) / 2
		d := newDual(c, t)
		value := d.climb(300)
		if overAll(c, value, t) > t {
			low = t
		} else {
			high = t
		}
	}
	return low
}

// rounds is how many rounds of iterated search there is time for: some tenths of a second.
func (c *Costs) rounds() int { return min(20_000, 40_000_000/(c.Hosts*c.Hosts/c.Robots+1)) }
