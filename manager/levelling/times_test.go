package levelling

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/manager/balance"
)

// The planner looks at all robots of a host at once. That must give the costs of the single pairs.
func TestTimesOfAllRobotsAtOnce(t *testing.T) {
	s := &snapshot{
		robots: []string{"a", "b", "c", "d"}, slow: []float64{1, 3, 0.5, 2}, weekday: []float64{1, 1, 2, 1}, estimates: doubt{raise: 1.2},
		paces: []balance.Pace{
			{Width: balance.Limit{Most: 4, Binds: true}, Drift: 1.5}, {Width: balance.Limit{Most: 4}, Line: balance.Limit{Most: 1000, Binds: true}},
			{Gap: 500, Width: balance.Limit{Most: 1, Binds: true}}, {Line: balance.Limit{Most: 50_000, Binds: true}},
		},
		weight: []float64{100, 2000, 70}, kb: []float64{10, 0, 3}, pages: []float64{5, 0, 1}, gap: []gap{{}, {}, {seen: 9}}, parts: []int{1, 1, 2},
		unmeasured: night{kb: 7, pages: 2},
		measured:   [][]distance{{{3, 40}, {0, 25}}, nil, {{1, 2}}},
	}
	s.estimateRates()
	for j := range s.weight {
		ms := []float64{1, 1, 1, 1}
		s.addTimes(j, ms)
		for i := range s.robots {
			if want := 1 + s.time(i, j); math.Abs(ms[i]-want) > 1e-9*want {
				t.Errorf("host %d at robot %d: %v, want %v", j, i, ms[i], want)
			}
		}
	}
}

// No plan ends before the bound, whatever limits the robots: neither the one that was found nor any
// other. The bound is near the best of them.
func TestNoPlanEndsBeforeTheBound(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 17))
		s := randomSnapshot(r)
		it, err := s.items(make([]bool, len(s.hosts)), nil)
		testkit.Must(t, err)
		it.costs, err = it.costs.WithChains(func(i, n int) float64 { return s.paces[i].Chain(s.itemWork(it, i, n)) })
		testkit.Must(t, err)
		result := balance.Result{Plan: it.from, Prices: make([]float64, len(s.robots))}
		for i := range result.Prices {
			result.Prices[i] = 1 / float64(len(s.robots))
		}
		if seed < 10 {
			result, err = balance.ReplanApart(it.costs, it.from, it.apart)
			testkit.Must(t, err)
		}
		bound := s.bound(it, result)
		plans := []balance.Plan{result.Plan}
		for range 20 {
			plan := make(balance.Plan, len(it.hosts))
			for n := range plan {
				plan[n] = r.IntN(len(s.robots))
			}
			plans = append(plans, plan)
		}
		best := math.Inf(1)
		for _, plan := range plans {
			best = min(best, last(s.ends(it, plan)).MS)
			if end := last(s.ends(it, plan)).MS; bound > end*(1+1e-9) {
				t.Errorf("instance %d: a plan ends after %.1f ms, but the bound is %.1f", seed, end, bound)
			}
		}
		if seed < 10 && bound < best/1.6 {
			t.Errorf("instance %d: the bound of %.1f ms is far below the best plan, %.1f", seed, bound, best)
		}
	}
}

// randomSnapshot returns few robots and hosts, of all sizes and distances. Some hosts share an
// address.
func randomSnapshot(r *rand.Rand) *snapshot {
	s := &snapshot{unmeasured: night{weight: 100, kb: 7, pages: 2}}
	for i := range 2 + r.IntN(3) {
		s.robots, s.slow, s.weekday = append(s.robots, fmt.Sprint("r", i)), append(s.slow, math.Exp(r.NormFloat64()/2)), append(s.weekday, 1)
		s.paces = append(s.paces, balance.Pace{
			Gap: 5, Width: balance.Limit{Most: 2 + 6*r.Float64(), Binds: true}, Line: balance.Limit{Most: 1e5 * math.Exp(r.NormFloat64()), Binds: r.IntN(2) == 0},
		})
	}
	for j := range 12 {
		kb := math.Exp(3 + 2*r.NormFloat64())
		var measured []distance
		for i := range s.robots {
			if r.IntN(3) > 0 {
				measured = append(measured, distance{i, 50 * math.Exp(r.NormFloat64())})
			}
		}
		s.hosts, s.group = append(s.hosts, fmt.Sprint("h", j)), append(s.group, fmt.Sprint("a", j/2))
		s.at, s.weight, s.kb = append(s.at, r.IntN(len(s.robots))), append(s.weight, kb*50), append(s.kb, kb)
		s.pages, s.gap, s.parts, s.measured = append(s.pages, 3), append(s.gap, gap{}), append(s.parts, 1), append(s.measured, measured)
	}
	return s
}
