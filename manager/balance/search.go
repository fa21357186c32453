package balance

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// search improves a plan and keeps the robots' sums up to date.
type search struct {
	c     *Costs
	price []float64
	plan  Plan
	loads []float64
	items [][]int32 // by robot: its hosts, in no order
	place []int32   // by host: its place in its robot's items
	fixed []bool    // by host: exchange does not move it
	row   []float64 // costs of one host, by robot
}

func newSearch(c *Costs, price []float64, p Plan) *search {
	s := &search{c: c, price: price, plan: slices.Clone(p), loads: make([]float64, c.Robots), items: make([][]int32, c.Robots), place: make([]int32, c.Hosts), fixed: make([]bool, c.Hosts)}
	for j, i := range p {
		s.place[j] = int32(len(s.items[i]))
		s.items[i] = append(s.items[i], int32(j))
		s.loads[i] += c.At(i, j)
	}
	return s
}

// result returns the plan and its makespan.
func (s *search) result() (Plan, float64) {
	return s.plan, s.plan.Makespan(s.c) // summed anew, without the rounding errors of many moves
}

// move gives host j to robot i.
func (s *search) move(j, i int) {
	from := s.plan[j]
	list, at := s.items[from], s.place[j]
	last := list[len(list)-1]
	list[at], s.place[last] = last, at
	s.items[from] = list[:len(list)-1]
	s.loads[from] -= s.c.At(from, j)
	s.place[j] = int32(len(s.items[i]))
	s.items[i] = append(s.items[i], int32(j))
	s.loads[i] += s.c.At(i, j)
	s.plan[j] = i
}

// top returns the robot with the highest load.
func (s *search) top() int {
	most := 0
	for i, l := range s.loads {
		if l > s.loads[most] {
			most = i
		}
	}
	return most
}

// near is the makespan, as a multiple of the bound, at which the search ends.
const near = 1.0005

// descend lowers the makespan as far as repair and exchange can.
func (s *search) descend(bound float64) {
	for _, over := range []float64{1.1, 1.03, 1.01, 1.003, 1.001, near} {
		s.repair(bound * over)
	}
	s.exchange(bound*near, math.MaxInt)
}

// repair moves hosts from robots above the target to robots that stay below it. It begins with the
// hosts whose move costs least, at the prices, for each ms that it frees.
func (s *search) repair(target float64) {
	type offer struct {
		j      int32
		regret float64
	}
	var offers []offer
	for range 4 {
		moved := false
		for i := range s.loads {
			if s.loads[i] <= target || s.c.stopped() != nil {
				continue
			}
			offers = offers[:0]
			for _, j := range s.items[i] {
				frees := s.c.At(i, int(j))
				if _, regret := s.elsewhere(int(j), i, target); frees > 0 && !math.IsInf(regret, 1) {
					offers = append(offers, offer{j, regret / frees})
				}
			}
			slices.SortFunc(offers, func(a, b offer) int {
				return cmp.Or(cmp.Compare(a.regret, b.regret), cmp.Compare(a.j, b.j))
			})
			for _, o := range offers {
				if s.loads[i] <= target {
					break
				}
				if to, regret := s.elsewhere(int(o.j), i, target); !math.IsInf(regret, 1) {
					s.move(int(o.j), to)
					moved = true
				}
			}
		}
		if !moved {
			return
		}
	}
}

// elsewhere returns the robot, except i, where host j is cheapest at the prices. The robot's load
// must stay within the target. regret is how much more the host costs there than at robot i, at the
// prices; +Inf if there is no such robot. If no candidate has room, it looks at all robots.
func (s *search) elsewhere(j, i int, target float64) (to int, regret float64) {
	regret = math.Inf(1)
	robots, ms := s.c.candidates(j)
	for k, other := range robots {
		if int(other) == i || s.loads[other]+ms[k] > target {
			continue
		}
		if r := ms[k] * s.price[other]; r < regret {
			to, regret = int(other), r
		}
	}
	if s.c.keep < s.c.Robots && math.IsInf(regret, 1) {
		to, regret = s.anywhere(j, i, target)
	}
	return to, regret - s.c.At(i, j)*s.price[i]
}

// anywhere looks at all robots, except i, that have room for host j below the target. It returns
// the cheapest robot at the prices, and the host's priced cost there; +Inf if no robot has room.
func (s *search) anywhere(j, i int, target float64) (to int, priced float64) {
	priced = math.Inf(1)
	if s.row == nil {
		s.row = make([]float64, s.c.Robots)
	}
	clear(s.row)
	s.c.row(j, s.row)
	for other, ms := range s.row {
		if p := ms * s.price[other]; p < priced && other != i && s.loads[other]+ms <= target && (s.c.excluded == nil || !s.c.excluded(other, j)) {
			to, priced = other, p
		}
	}
	return to, priced
}

// patience is the most hosts and pairs of hosts that exchange tries in all.
const patience = 20_000_000

// looks is the most pairs of hosts that one step of exchange compares.
const looks = 400_000

// exchange lowers the highest load. In each step it moves a host of the most loaded robot, or swaps
// it for another robot's host, whichever leaves the lower maximum of the two loads. It ends when
// nothing helps, when the target is reached, after a number of steps, when it has tried very many
// pairs, or when the work is stopped.
func (s *search) exchange(target float64, steps int) {
	looked := 0
	for range steps {
		top := s.top()
		high := s.loads[top]
		if high <= target || looked > patience || s.c.stopped() != nil {
			return
		}
		bestJ, bestK, bestI, best := -1, -1, -1, high*(1-1e-12)
		for _, j32 := range s.items[top] {
			j := int(j32)
			if s.fixed[j] {
				continue
			}
			robots, ms := s.c.candidates(j)
			without := high - s.c.At(top, j)
			looked += len(robots)
			for n, i32 := range robots {
				i := int(i32)
				if i == top || math.IsInf(ms[n], 1) {
					continue
				}
				with := s.loads[i] + ms[n]
				if v := max(without, with); v < best {
					bestJ, bestK, bestI, best = j, -1, i, v
				}
				if len(s.items[top])*len(s.items[i])*len(robots) > looks {
					continue
				}
				looked += len(s.items[i])
				for _, k := range s.items[i] {
					if s.fixed[k] {
						continue
					}
					back := s.c.At(top, int(k))
					if v := max(without+back, with-s.c.At(i, int(k))); v < best {
						bestJ, bestK, bestI, best = j, int(k), i, v
					}
				}
			}
		}
		if bestJ < 0 {
			return
		}
		s.move(bestJ, bestI)
		if bestK >= 0 {
			s.move(bestK, top)
		}
	}
}

// iterate is an iterated local search. In each round it moves a few hosts at random, mostly to
// robots where they are nearly as cheap, and improves the plan around them. Hosts may move more
// than once. It also goes on from plans that are a little worse, because the best plan is seldom
// next to the first good one.
func (s *search) iterate(bound float64, rounds int, r *rand.Rand) {
	if s.c.Robots < 2 {
		return
	}
	order := s.byPrice()
	best, bestPlan := s.loads[s.top()], slices.Clone(s.plan)
	since := 0
	var thrown []int
	for range rounds {
		if best <= bound*near {
			break
		}
		thrown = thrown[:0]
		for range 1 + r.IntN(3) {
			j := r.IntN(s.c.Hosts)
			if r.IntN(2) == 0 {
				top := s.items[s.top()]
				j = int(top[r.IntN(len(top))])
			}
			choice := order[j]
			at := 0
			for at < len(choice)-1 && (int(choice[at]) == s.plan[j] || r.IntN(2) == 0) {
				at++
			}
			if ms := s.c.At(int(choice[at]), j); ms < best {
				s.move(j, int(choice[at]))
				s.fixed[j] = true
				thrown = append(thrown, j)
			}
		}
		s.exchange(bound*near, 60)
		for _, j := range thrown {
			s.fixed[j] = false
		}
		s.exchange(bound*near, 60)
		switch now := s.loads[s.top()]; {
		case now < best*(1-1e-9):
			best, since = now, 0
			copy(bestPlan, s.plan)
		case now > best*1.03 || since > 40:
			s.reset(bestPlan)
			since = 0
		default:
			since++
		}
	}
	s.reset(bestPlan)
}

// reset moves hosts so that the plan becomes p.
func (s *search) reset(p Plan) {
	for j, i := range p {
		if s.plan[j] != i {
			s.move(j, i)
		}
	}
}

// byPrice returns the candidates of each host, the cheapest at the prices first.
func (s *search) byPrice() [][]int32 {
	order := make([][]int32, s.c.Hosts)
	for j := range order {
		robots, _ := s.c.candidates(j)
		order[j] = slices.Clone(robots)
		slices.SortFunc(order[j], func(a, b int32) int {
			return cmp.Compare(s.c.At(int(a), j)*s.price[a], s.c.At(int(b), j)*s.price[b])
		})
	}
	return order
}
