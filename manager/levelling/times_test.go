package levelling

import (
	"math"
	"testing"

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
