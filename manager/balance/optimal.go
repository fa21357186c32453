package balance

import (
	"fmt"
	"math/rand/v2"
)

const (
	near   = 1.0005 // the makespan, as a multiple of the bound, that Optimal aims at
	enough = 1.069  // the same of Replan. To come closer would cost more in moves than it saves in time
)

// Optimal makes a plan from nothing. It is deterministic.
func Optimal(c *Costs) Result {
	r, _ := solve(c, nil, nil, near) // only a plan to go on from or a set of items can be at fault
	return r
}

// Replan adapts a plan to new costs. It moves few hosts, because the new robot of a host fetches
// all of it. from may be shorter than the number of hosts: placing the other hosts, which are new,
// counts as no move. from may also name robots that are gone, by -1 or by an infinite cost. Replan
// fails if from has more hosts than c.
func Replan(c *Costs, from Plan) (Result, error) { return solve(c, from, nil, enough) }

// ReplanApart is Replan if some items, such as the shares or copies of one host, must go to
// different robots. Each set in apart names such items. It fails if it finds no robot for an item.
func ReplanApart(c *Costs, from Plan, apart [][]int) (Result, error) {
	return solve(c, from, apart, enough)
}

// solve looks for a plan that ends within target times the bound and moves few hosts. It finds
// prices, gives each host without a robot to the robot where it is cheapest at these prices, and
// improves the plan by repair and local search. If there are few hosts, it goes on with an iterated
// local search until the plan is good enough.
func solve(c *Costs, from Plan, apart [][]int, target float64) (r Result, err error) {
	if len(from) > c.Hosts {
		return r, fmt.Errorf("the plan to go on from has %d hosts, the costs %d", len(from), c.Hosts)
	}
	if c.Hosts == 0 {
		return Result{Plan: Plan{}}, nil
	}
	parts := []int{20, 4, 1} // a short search is usually enough; the bound tells
	if from != nil {
		parts = parts[:2]
	}
	r.Prices, r.Bound = newDual(c).prove(c.steps())
	s, err := newSearch(c, r.Prices, from, apart)
	if err != nil {
		return r, err
	}
	if len(apart) > 0 {
		r.Bound = max(r.Bound, overAll(c, r.Prices)+apartBound(c, r.Prices, apart), longestApart(c, apart))
	}
	s.approach(r.Bound, target)
	random := rand.New(rand.NewPCG(1, uint64(c.Hosts)))
	for _, part := range parts {
		if !c.small() || s.loads[s.top()] <= r.Bound*(target+spare) && s.moves <= c.Hosts/20 {
			break
		}
		s.iterate(r.Bound*target, c.rounds()/part, random)
		r.Bound = c.tighten(r.Bound, s.loads[s.top()], r.Prices) // a higher bound allows a longer plan
	}
	r.Plan, r.Makespan = s.plan, s.plan.Makespan(c) // summed anew, without the rounding errors of many moves
	return r, c.stopped()
}

// spare is how much a plan may be above the target, as a part of the bound, for the iterated search
// to end.
const spare = 0.0015

// small reports whether there is time to look at all pairs of hosts.
func (c *Costs) small() bool { return c.Robots*c.Hosts <= 10_000 }

// steps is the number of steps towards the best prices.
func (c *Costs) steps() int {
	if c.small() {
		return 400
	}
	return 120
}

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
