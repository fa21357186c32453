package balance

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// enough is the makespan, as a multiple of the bound, at which Replan stops. To come closer takes
// more moves than it saves time.
const enough = 1.05

// Replan goes on from a plan with new costs and moves few hosts, because the new robot of a host
// fetches all of it. from may be for fewer hosts; the others are new, and placing them is no
// move. It may name robots that are gone, by -1 or by an infinite cost. Replan fails if from has
// more hosts than c.
func Replan(c *Costs, from Plan) (Result, error) {
	r, err := replan(c, from, c.rounds()/4)
	if err == nil && c.Hosts > 0 {
		r.Bound = c.tighten(r.Bound, r.Makespan, r.Prices)
	}
	return r, err
}

// replan is Replan with a number of rounds of iterated search, which it uses if it misses the
// target. It does not tighten the bound.
func replan(c *Costs, from Plan, rounds int) (Result, error) {
	if len(from) > c.Hosts {
		return Result{}, fmt.Errorf("the plan to go on from has %d hosts, the costs %d", len(from), c.Hosts)
	}
	if c.Hosts == 0 {
		return Result{Plan: Plan{}}, nil
	}
	d := newDual(c, math.Inf(1))
	price := d.climb(120)
	r := Result{Prices: price, Bound: max(overAll(c, price, math.Inf(1)), longest(c))}
	start := d.plan()
	for j, i := range from {
		if i >= 0 && i < c.Robots && !math.IsInf(c.all(i, j), 1) {
			start[j] = i
		}
	}
	r.Makespan = math.Inf(1)
	for _, slack := range []float64{1.045, 1.03, 1.015, 1.005} {
		s := newSearch(c, price, start)
		s.cheapen(r.Bound * slack)
		s.repair(r.Bound * enough)
		s.exchange(r.Bound*enough, math.MaxInt)
		if c.small() && s.loads[s.top()] > r.Bound*enough {
			s.iterate(r.Bound*enough, rounds, rand.New(rand.NewPCG(2, uint64(c.Hosts))))
		}
		s.goHome(start, r.Bound*enough)
		if p, ms := s.result(); ms < r.Makespan*0.995 {
			r.Plan, r.Makespan = p, ms
		}
		if r.Makespan <= r.Bound*(enough+0.005) {
			break
		}
	}
	return r, nil
}

// cheapen moves the hosts that gain most to the robots where they are cheapest at the prices,
// until the priced cost of the whole plan is within the target. The priced cost of a plan is a
// lower bound on its makespan, so above the target no shifting of hosts could help.
func (s *search) cheapen(target float64) {
	type gain struct {
		j    int32
		to   int32
		gain float64
	}
	var gains []gain
	total := 0.0
	for i, l := range s.loads {
		total += l * s.price[i]
	}
	for j := range s.plan {
		now := s.c.all(s.plan[j], j) * s.price[s.plan[j]]
		robots, ms := s.c.candidates(j)
		best := gain{j: int32(j)}
		for k, i := range robots {
			if g := now - ms[k]*s.price[i]; g > best.gain {
				best.to, best.gain = i, g
			}
		}
		if best.gain > 0 {
			gains = append(gains, best)
		}
	}
	slices.SortFunc(gains, func(a, b gain) int {
		return cmp.Or(cmp.Compare(b.gain, a.gain), cmp.Compare(a.j, b.j))
	})
	for _, g := range gains {
		if total <= target {
			return
		}
		s.move(int(g.j), int(g.to))
		total -= g.gain
	}
}

// goHome takes back the moves that are not needed to reach the target.
func (s *search) goHome(start Plan, target float64) {
	limit := max(target, s.loads[s.top()])
	for j, home := range start {
		if i := s.plan[j]; i != home && s.loads[home]+s.c.all(home, j) <= limit {
			s.move(j, home)
		}
	}
}
