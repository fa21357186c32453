package balance

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// enough is the makespan, as a multiple of the bound, that Replan aims at. To come closer would
// cost more in moves than it saves in time.
const enough = 1.069

// Replan adapts a plan to new costs. It moves few hosts, because the new robot of a host fetches
// all of it. from may be shorter than the number of hosts: placing the other hosts, which are new,
// counts as no move. from may also name robots that are gone, by -1 or by an infinite cost. Replan
// fails if from has more hosts than c.
func Replan(c *Costs, from Plan) (Result, error) {
	return replan(c, from, enough, c.rounds()/4, true)
}

// replan is Replan with a target, as a multiple of the bound. If it misses the target, it makes a
// number of rounds of iterated search. It tightens the bound only if tight is set.
func replan(c *Costs, from Plan, target float64, rounds int, tight bool) (Result, error) {
	if len(from) > c.Hosts {
		return Result{}, fmt.Errorf("the plan to go on from has %d hosts, the costs %d", len(from), c.Hosts)
	}
	if c.Hosts == 0 {
		return Result{Plan: Plan{}}, nil
	}
	d := newDual(c, math.Inf(1))
	price, bound := d.prove(120)
	start := d.plan()
	for j, i := range from {
		if i >= 0 && i < c.Robots && !math.IsInf(c.At(i, j), 1) {
			start[j] = i
		}
	}
	r := &replanner{c: c, target: target, price: price, start: start, random: rand.New(rand.NewPCG(2, uint64(c.Hosts)))}
	r.aim(bound)
	r.easeOften(rounds)
	r.repairAll(rounds)
	if tight && (!r.reached() || r.moves > c.Hosts/10) { // a higher bound allows a longer plan
		found := r.best.Plan
		r.aim(c.tighten(bound, r.best.Makespan, price))
		r.goBack(found, rounds)
		r.easeOften(rounds)
		r.repairAll(rounds)
	}
	if tight {
		r.best.Bound = c.tighten(r.best.Bound, r.best.Makespan, price)
	}
	return r.best, c.stopped()
}

// replanner looks for a plan within a limit that moves few hosts.
type replanner struct {
	c      *Costs
	target float64 // multiple of the bound
	price  []float64
	start  Plan
	random *rand.Rand
	limit  float64 // ms
	best   Result
	moves  int // number of moves of best
}

// aim sets the limit by a lower bound and forgets the best plan.
func (r *replanner) aim(bound float64) {
	r.limit, r.moves = bound*r.target, math.MaxInt
	r.best = Result{Plan: r.start, Makespan: math.Inf(1), Bound: bound, Prices: r.price}
}

// reached reports whether the best plan is within the limit.
func (r *replanner) reached() bool { return r.within(r.best.Makespan) }

func (r *replanner) within(ms float64) bool { return ms <= r.limit*(1+1e-9) }

// try improves the plan r.start and keeps the outcome if it is the best so far: within the limit
// with the fewest moves, or else the shortest.
func (r *replanner) try(improve func(s *search)) {
	r.tryFrom(r.start, improve)
}

// tryFrom is try, but begins with another plan.
func (r *replanner) tryFrom(from Plan, improve func(s *search)) {
	s := newSearch(r.c, r.price, from)
	improve(s)
	if r.c.small() {
		s.fewer(r.start, r.limit)
	} else {
		s.goHome(r.start, r.limit)
	}
	plan, ms := s.result()
	n := plan.Moved(r.start)
	if !r.within(ms) && ms >= r.best.Makespan*0.995 || r.within(ms) && r.reached() && n >= r.moves {
		return
	}
	r.best.Plan, r.best.Makespan, r.moves = plan, ms, n
}

// easeOften tries search.ease in different ways. It does nothing for large plans, because each step
// looks at every pair.
func (r *replanner) easeOften(rounds int) {
	if !r.c.small() {
		return
	}
	for n := range max(40, min(rounds/10, 200)) {
		r.try(func(s *search) {
			if n%2 == 1 {
				s.unseat(r.random)
			}
			s.ease(r.limit, powers[n/2%len(powers)], n/2/len(powers), r.random)
		})
		if r.moves == 0 {
			return
		}
	}
}

// goBack takes moves of a plan back as far as the limit allows. From the best plan so far it sends
// a few hosts home, lets other hosts make room for them, and checks whether that takes fewer moves.
func (r *replanner) goBack(found Plan, rounds int) {
	if !r.c.small() {
		return
	}
	r.tryFrom(found, func(*search) {})
	for n := range max(100, min(rounds/4, 600)) {
		r.tryFrom(r.best.Plan, func(s *search) {
			var moved []int
			for j, home := range r.start {
				if s.plan[j] != home {
					moved = append(moved, j)
				}
			}
			r.random.Shuffle(len(moved), func(a, b int) { moved[a], moved[b] = moved[b], moved[a] })
			home := moved[:min(len(moved), 1+r.random.IntN(4))]
			for _, j := range home {
				s.move(j, r.start[j])
				s.fixed[j] = true
			}
			s.ease(r.limit, powers[n%len(powers)], 1, r.random)
		})
		if r.moves == 0 {
			return
		}
	}
}

// cheapen moves the hosts that gain most to the robots where they are cheapest at the prices, until
// the priced cost of the whole plan is within the target. That cost is a lower bound on the plan's
// makespan: while it is above the target, moving other hosts cannot help.
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
		now := s.c.At(s.plan[j], j) * s.price[s.plan[j]]
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
		if i := s.plan[j]; i != home && s.loads[home]+s.c.At(home, j) <= limit {
			s.move(j, home)
		}
	}
}
