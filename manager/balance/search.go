package balance

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// search improves a plan and keeps the robots' sums up to date. It weighs the makespan against the
// number of hosts that are not at the robot where they were, their home.
type search struct {
	c     *Costs
	price []float64
	apart map[int][]int // by host: the hosts that must be at other robots
	home  Plan          // by host: its robot before; -1: none
	plan  Plan
	moves int // number of hosts that are not at home
	loads []float64
	items [][]int32 // by robot: its hosts, in no order
	place []int32   // by host: its place in its robot's items
	fixed []bool    // by host: exchange does not move it
	row   []float64 // costs of one host, by robot
}

// newSearch returns a search that begins with the robots of from. Hosts that have no robot there,
// or cannot stay beside a host from which they must be apart, begin at the robot where they are
// cheapest at the prices. It fails if no robot can have a host.
func newSearch(c *Costs, price []float64, from Plan, apart [][]int) (*search, error) {
	s := &search{
		c: c, price: price, home: slices.Repeat(Plan{-1}, c.Hosts), plan: slices.Repeat(Plan{-1}, c.Hosts), loads: make([]float64, c.Robots),
		items: make([][]int32, c.Robots), place: make([]int32, c.Hosts), fixed: make([]bool, c.Hosts), row: make([]float64, c.Robots),
	}
	if len(apart) > 0 {
		s.apart = map[int][]int{}
	}
	for _, set := range apart {
		for n, j := range set {
			s.apart[j] = slices.Concat(s.apart[j], set[:n], set[n+1:])
		}
	}
	for j, i := range from {
		if i >= 0 && i < c.Robots && !math.IsInf(c.At(i, j), 1) && !s.barred(j, i) {
			s.home[j] = i
			s.move(j, i)
		}
	}
	for j, i := range s.plan {
		if i >= 0 {
			continue
		}
		to, priced := s.elsewhere(j, -1, math.Inf(1))
		if math.IsInf(priced, 1) {
			return nil, fmt.Errorf("host %d can be collected by no robot", j)
		}
		s.move(j, to)
	}
	return s, nil
}

// move gives host j to robot i.
func (s *search) move(j, i int) {
	if from := s.plan[j]; from >= 0 {
		list, at := s.items[from], s.place[j]
		last := list[len(list)-1]
		list[at], s.place[last] = last, at
		s.items[from] = list[:len(list)-1]
		s.loads[from] -= s.c.At(from, j)
	}
	s.moves += s.away(j, i) - s.away(j, s.plan[j])
	s.place[j] = int32(len(s.items[i]))
	s.items[i] = append(s.items[i], int32(j))
	s.loads[i] += s.c.At(i, j)
	s.plan[j] = i
}

// away returns 1 if robot i is not where host j is at home, and 0 otherwise.
func (s *search) away(j, i int) int {
	if home := s.home[j]; home < 0 || home == i || i < 0 {
		return 0
	}
	return 1
}

// barred reports whether robot i has a host that must be apart from host j.
func (s *search) barred(j, i int) bool {
	return s.apart != nil && slices.ContainsFunc(s.apart[j], func(k int) bool { return s.plan[k] == i })
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

// approach lowers the makespan towards the target, a multiple of the bound, by as few moves as that
// takes.
func (s *search) approach(bound, target float64) {
	limit := bound * target
	for _, slack := range []float64{1.045, 1.03, 1.015, 1.005} {
		if s.loads[s.top()] <= limit || s.c.stopped() != nil {
			break
		}
		s.cheapen(bound * slack)
		for _, over := range []float64{1.03, 1.01, 1.003, 1.001, near} {
			s.repair(max(limit, bound*over))
		}
		s.exchange(limit, 0, math.MaxInt)
	}
	s.goHome(limit)
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
				if _, priced := s.elsewhere(int(j), i, target); frees > 0 && !math.IsInf(priced, 1) {
					offers = append(offers, offer{j, priced / frees})
				}
			}
			slices.SortFunc(offers, func(a, b offer) int {
				return cmp.Or(cmp.Compare(a.regret, b.regret), cmp.Compare(a.j, b.j))
			})
			for _, o := range offers {
				if s.loads[i] <= target {
					break
				}
				if to, priced := s.elsewhere(int(o.j), i, target); !math.IsInf(priced, 1) {
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

// elsewhere returns the robot, except i, where host j is cheapest at the prices, and its priced
// cost there; +Inf if there is no such robot. The robot's load must stay within the target. If no
// candidate has room, it looks at all robots.
func (s *search) elsewhere(j, i int, target float64) (to int, priced float64) {
	priced = math.Inf(1)
	robots, ms := s.c.candidates(j)
	for k, r := range robots {
		other := int(r)
		if p := ms[k] * s.price[other]; p < priced && other != i && s.loads[other]+ms[k] <= target && !s.barred(j, other) {
			to, priced = other, p
		}
	}
	if s.c.keep == s.c.Robots || !math.IsInf(priced, 1) {
		return to, priced
	}
	clear(s.row)
	s.c.row(j, s.row)
	for other, ms := range s.row {
		if p := ms * s.price[other]; p < priced && other != i && s.loads[other]+ms <= target && !s.barred(j, other) &&
			(s.c.excluded == nil || !s.c.excluded(other, j)) {
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
// it for another robot's host, whichever leaves the lower maximum of the two loads. A move from
// home counts as if it raised that maximum by leaving, a part of the target. exchange ends when
// nothing helps, when the target is reached, after a number of steps, when it has tried very many
// pairs, or when the work is stopped.
func (s *search) exchange(target, leaving float64, steps int) {
	looked := 0
	value := func(ms float64, left int) float64 { return max(ms, target) + leaving*target*float64(left) }
	for range steps {
		top := s.top()
		high := s.loads[top]
		if high <= target || looked > patience || s.c.stopped() != nil {
			return
		}
		lower := high * (1 - 1e-12)
		bestJ, bestK, bestI, best := -1, -1, -1, math.Inf(1)
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
				if i == top || math.IsInf(ms[n], 1) || s.barred(j, i) {
					continue
				}
				with := s.loads[i] + ms[n]
				left := s.away(j, i) - s.away(j, top)
				if ms := max(without, with); ms < lower && value(ms, left) < best {
					bestJ, bestK, bestI, best = j, -1, i, value(ms, left)
				}
				if len(s.items[top])*len(s.items[i])*len(robots) > looks {
					continue
				}
				looked += len(s.items[i])
				for _, k32 := range s.items[i] {
					k := int(k32)
					if s.fixed[k] {
						continue
					}
					back := s.c.At(top, k)
					ms := max(without+back, with-s.c.At(i, k))
					if ms >= lower {
						continue
					}
					v := value(ms, left+s.away(k, top)-s.away(k, i))
					if v < best && !s.barred(k, top) {
						bestJ, bestK, bestI, best = j, k, i, v
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

// score is the makespan, or the limit if that is higher, and a little more for each move.
func (s *search) score(limit float64) float64 {
	return max(s.loads[s.top()], limit) * (1 + 0.0005*float64(s.moves))
}

// iterate is an iterated local search. In each round it moves a few hosts at random, and improves
// the plan around them. Hosts may move more than once. It also goes on from plans that are a little
// worse, because the best plan is seldom next to the first good one.
func (s *search) iterate(limit float64, rounds int, random *rand.Rand) {
	if s.c.Robots < 2 {
		return
	}
	best, bestPlan := s.score(limit), slices.Clone(s.plan)
	since := 0
	for range rounds {
		if best <= limit {
			break
		}
		s.kick(limit, random)
		leaving := leavings[random.IntN(len(leavings))]
		s.exchange(limit, leaving, 60)
		clear(s.fixed)
		s.exchange(limit, leaving, 60)
		s.goHome(limit)
		switch now := s.score(limit); {
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

// leavings are what a move from home counts for in the rounds of iterate, as a part of the limit.
var leavings = []float64{0, 0.003, 0.01, 0.03, 0.1}

// kick moves one to three random hosts, mostly home or to robots where they cost little, and keeps
// them there. It prefers hosts of the most loaded robot, if its load is above the limit, and hosts
// that are not at home.
func (s *search) kick(limit float64, random *rand.Rand) {
	high := s.loads[s.top()]
	for range 1 + random.IntN(3) {
		j := random.IntN(s.c.Hosts)
		if high > limit && random.IntN(2) == 0 {
			top := s.items[s.top()]
			j = int(top[random.IntN(len(top))])
		} else if s.moves > 0 && random.IntN(2) == 0 {
			for s.away(j, s.plan[j]) == 0 {
				j = random.IntN(s.c.Hosts)
			}
		}
		to := s.home[j]
		if s.away(j, s.plan[j]) == 0 || random.IntN(4) == 0 {
			robots, _ := s.c.candidates(j)
			at := 0
			for at < len(robots)-1 && (int(robots[at]) == s.plan[j] || random.IntN(2) == 0) {
				at++
			}
			to = int(robots[at])
		}
		if s.c.At(to, j) < max(high, limit) && !s.barred(j, to) {
			s.move(j, to)
			s.fixed[j] = true
		}
	}
}

// reset moves hosts so that the plan becomes p.
func (s *search) reset(p Plan) {
	for j, i := range p {
		if s.plan[j] != i {
			s.move(j, i)
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
		if !s.barred(int(g.j), int(g.to)) {
			s.move(int(g.j), int(g.to))
			total -= g.gain
		}
	}
}

// goHome takes back the moves that are not needed to reach the target.
func (s *search) goHome(target float64) {
	if s.moves == 0 {
		return
	}
	limit := max(target, s.loads[s.top()])
	for j, home := range s.home {
		if s.away(j, s.plan[j]) == 1 && s.loads[home]+s.c.At(home, j) <= limit && !s.barred(j, home) {
			s.move(j, home)
		}
	}
}
