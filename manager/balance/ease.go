package balance

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// unseat tries to move one of the most loaded robot's largest hosts to a random candidate, and
// keeps it there. Smaller steps would never make room for it.
func (s *search) unseat(random *rand.Rand) {
	top := s.top()
	large := slices.Clone(s.items[top])
	slices.SortFunc(large, func(a, b int32) int {
		return cmp.Or(cmp.Compare(s.c.At(top, int(b)), s.c.At(top, int(a))), cmp.Compare(a, b))
	})
	j := int(large[random.IntN(min(4, len(large)))])
	robots, ms := s.c.candidates(j)
	if k := random.IntN(len(robots)); int(robots[k]) != top && ms[k] < s.loads[top] {
		s.move(j, int(robots[k]))
		s.fixed[j] = true
	}
}

// powers are the exponents that ease tries. A high one counts the highest loads only; a low one
// also counts what a move adds to the work of all.
var powers = []float64{3, 4, 6, 8, 12, 16, 24, 40}

// repairAll tries to reach the limit, however many moves that takes.
func (r *replanner) repairAll(rounds int) {
	for _, slack := range []float64{1.045, 1.03, 1.015, 1.005} {
		if r.reached() || r.c.stopped() != nil {
			return
		}
		r.try(func(s *search) {
			s.cheapen(r.best.Bound * slack)
			s.repair(r.limit)
			s.exchange(r.limit, math.MaxInt)
			if r.c.small() && s.loads[s.top()] > r.limit {
				s.iterate(r.limit, rounds, r.random)
			}
		})
	}
}

// ease moves one host at a time until no robot's load is above the limit, or no move helps. Each
// time it takes the move that most lowers the sum of the loads raised to power. If loose is above
// 0, it takes a random one of the moves that lower it by nearly as much.
func (s *search) ease(limit, power float64, loose int, random *rand.Rand) {
	type option struct {
		j, i   int
		change float64
	}
	value := make([]float64, s.c.Robots)
	for range 2 * len(s.plan) {
		if s.loads[s.top()] <= limit {
			return
		}
		for i, load := range s.loads {
			value[i] = math.Pow(load/limit, power)
		}
		best := option{change: -1e-12}
		var options []option
		for j, from := range s.plan {
			if s.fixed[j] {
				continue
			}
			without := math.Pow((s.loads[from]-s.c.At(from, j))/limit, power) - value[from]
			if without >= best.change/2 {
				continue // the host is too small at its robot for a move to help
			}
			robots, ms := s.c.candidates(j)
			for k, to := range robots {
				i := int(to)
				if i == from || math.IsInf(ms[k], 1) {
					continue
				}
				o := option{j, i, without + math.Pow((s.loads[i]+ms[k])/limit, power) - value[i]}
				if o.change < best.change {
					best = o
				}
				if loose > 0 && o.change < 0 {
					options = append(options, o)
				}
			}
		}
		if best.change >= -1e-12 {
			return
		}
		if loose > 0 {
			near := options[:0]
			for _, o := range options {
				if o.change <= best.change*max(0.3, 1-0.1*float64(loose)) {
					near = append(near, o)
				}
			}
			best = near[random.IntN(len(near))]
		}
		s.move(best.j, best.i)
	}
}

// fewer takes back moves that the limit does not need: a host goes home. If its home would then
// have too much, another host that has moved there makes room.
func (s *search) fewer(start Plan, limit float64) {
	if s.loads[s.top()] > limit {
		return
	}
	for again := true; again; {
		again = false
		s.goHome(start, limit)
		for j, home := range start {
			if s.plan[j] != home && s.makeRoom(start, j, home, limit) {
				again = true
			}
		}
	}
}

// makeRoom sends host j home if a host that has moved to that robot can move on and so make room.
func (s *search) makeRoom(start Plan, j, home int, limit float64) bool {
	need := s.loads[home] + s.c.At(home, j) - limit
	from := s.plan[j]
	for _, k32 := range s.items[home] {
		k := int(k32)
		if start[k] == home || s.c.At(home, k) < need {
			continue
		}
		robots, ms := s.c.candidates(k)
		for n, i32 := range robots {
			i := int(i32)
			room := limit - s.loads[i]
			if i == from {
				room += s.c.At(from, j)
			}
			if i != home && ms[n] <= room {
				s.move(k, i)
				s.move(j, home)
				return true
			}
		}
	}
	return false
}
