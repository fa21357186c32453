package balance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Plan is the robot of each host, by the host's number.
type Plan []int

// Loads returns the sum of each robot's costs, in ms.
func (p Plan) Loads(c *Costs) []float64 {
	loads := make([]float64, c.Robots)
	for j, i := range p {
		loads[i] += c.At(i, j)
	}
	return loads
}

// Makespan returns the highest of the robots' sums, in ms.
func (p Plan) Makespan(c *Costs) float64 { return slices.Max(p.Loads(c)) }

// Moved returns how many hosts are at another robot than in from.
func (p Plan) Moved(from Plan) int {
	n := 0
	for j := range p {
		if j < len(from) && p[j] != from[j] {
			n++
		}
	}
	return n
}

// Result is a plan and how good it is.
type Result struct {
	Plan     Plan
	Makespan float64   // ms
	Bound    float64   // ms; no plan is shorter
	Prices   []float64 // of each robot's time
}

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

// prover looks for a proof that no plan ends within a limit. It tries where the largest hosts go,
// by branch and bound over the Lagrangian dual. The dual alone treats hosts as divisible, so it
// proves little if a few hosts are a large part of a robot's night.
type prover struct {
	c     *Costs
	limit float64 // ms
	nodes int     // how many nodes of the search may still be visited

	room  []float64 // by robot: ms left of the limit
	tried []bool    // by host: a robot is being tried for it
	price []float64
	loads []float64
}

// impossible reports whether no plan ends within the limit. If it returns false, nothing is
// proven.
func (c *Costs) impossible(limit float64, price []float64, nodes int) bool {
	p := &prover{
		c: c, limit: limit, nodes: nodes, room: slices.Repeat([]float64{limit}, c.Robots), tried: make([]bool, c.Hosts),
		price: slices.Clone(price), loads: make([]float64, c.Robots),
	}
	return p.none(200)
}

// none reports whether it can prove that no plan within the limit has the hosts where they are
// being tried. It first makes up to steps steps towards better prices.
func (p *prover) none(steps int) bool {
	if p.nodes--; p.nodes < 0 {
		return false
	}
	before := slices.Clone(p.price)
	defer copy(p.price, before)
	j := -1
	for step := range steps {
		var value float64
		if value, j = p.evaluate(); value > p.limit*(1+1e-9) {
			return true
		}
		if !raise(p.price, p.loads, 0.3/(1+0.1*float64(step))) {
			break
		}
	}
	if j < 0 {
		return false
	}
	var to []choice
	robots, ms := p.c.candidates(j)
	for k, i := range robots {
		if ms[k] <= p.room[i] {
			to = append(to, choice{i, ms[k], ms[k] * p.price[i]})
		}
	}
	slices.SortFunc(to, choice.compare)
	p.tried[j] = true
	defer func() { p.tried[j] = false }()
	for _, one := range to {
		room := p.room[one.robot]
		p.room[one.robot] = room - one.ms
		none := p.none(30)
		p.room[one.robot] = room
		if !none {
			return false
		}
	}
	return true // no robot can have the host
}

// evaluate returns a lower bound, at the prices, on all plans with the hosts where they are being
// tried. If the bound is above the limit, there is no such plan. largest is the host to try next:
// the host with the highest priced cost at its cheapest robot; -1: no host is left.
func (p *prover) evaluate() (value float64, largest int) {
	largest = -1
	most := 0.0
	for i := range p.loads {
		p.loads[i] = p.limit - p.room[i]
		value += p.loads[i] * p.price[i]
	}
	for j, tried := range p.tried {
		if tried {
			continue
		}
		least, to, cost := math.Inf(1), int32(-1), 0.0
		robots, ms := p.c.candidates(j)
		for k, i := range robots {
			if ms[k] > p.room[i] {
				continue
			}
			if priced := ms[k] * p.price[i]; priced < least {
				least, to, cost = priced, i, ms[k]
			}
		}
		if to < 0 {
			return math.Inf(1), -1
		}
		value += least
		p.loads[to] += cost
		if least > most {
			largest, most = j, least
		}
	}
	return value, largest
}
