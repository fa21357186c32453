package balance_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"sheaf/manager/balance"
)

// night simulates one night. Robots collect the hosts of their plans one after the other, each in
// its real time, and an idle robot may take hosts over.
func night(c *balance.Costs, plan balance.Plan, real func(i, j int) float64, take bool) (end float64) {
	waiting, pace := make([][]int, c.Robots), slices.Repeat([]float64{1}, c.Robots)
	for j, i := range plan {
		waiting[i] = append(waiting[i], j)
	}
	free, thought := make([]float64, c.Robots), make([]float64, c.Robots) // when each is next free; what its hosts were thought to take
	for {
		i := -1
		for n := range free {
			if (len(waiting[n]) > 0 || take && free[n] < end) && (i < 0 || free[n] < free[i]) {
				i = n
			}
		}
		if i < 0 {
			return end
		}
		if len(waiting[i]) == 0 {
			last, ends := i, make([]float64, c.Robots) // from now
			for n := range free {
				if thought[n] > 0 {
					pace[n] = max(free[n], 1) / thought[n]
				}
				ends[n] = max(0, free[n]-free[i])
				for _, j := range waiting[n] {
					ends[n] += c.At(n, j) * pace[n]
				}
				if len(waiting[n]) > 0 && ends[n] > ends[last] {
					last = n
				}
			}
			taken := balance.Take(c, waiting[last], last, i, pace, ends, nil)
			if len(taken) == 0 {
				free[i] = end // nothing to be had: done for the night
				continue
			}
			waiting[last] = slices.DeleteFunc(waiting[last], func(j int) bool { return slices.Contains(taken, j) })
			waiting[i] = append(waiting[i], taken...)
		}
		j := waiting[i][0]
		waiting[i] = waiting[i][1:]
		thought[i] += c.At(i, j)
		free[i] += real(i, j)
		end = max(end, free[i])
	}
}

func TestTakingOverAgainstTheStaticPlan(t *testing.T) {
	var static, taking float64
	for seed := range 3 {
		r := rand.New(rand.NewPCG(uint64(seed), 31))
		c := costsOf(t, world(r, 32, 2000))
		plan := balance.Optimal(c).Plan
		slow := make([]float64, c.Hosts)
		for j := range slow {
			slow[j] = 1
			if r.IntN(20) == 0 {
				slow[j] = 10 // as the paper saw single hosts
			}
		}
		line := make([]float64, c.Robots)
		for i := range line {
			line[i] = 0.7 + 0.6*r.Float64()
		}
		real := func(i, j int) float64 { return c.At(i, j) * slow[j] * line[i] }
		static += night(c, plan, real, false)
		taking += night(c, plan, real, true)
	}
	t.Logf("with taking over the night takes %.3f of the static plan's", taking/static)
	if taking > 0.85*static {
		t.Errorf("%.3f of the static plan's end, want at most 0.85", taking/static)
	}
}

func TestTakeLeavesWhatWouldNotHelp(t *testing.T) {
	c := costsOf(t, [][]float64{{10, 10, 10}, {100, 100, 9}})
	pace := []float64{1, 1}
	if got := balance.Take(c, []int{0, 1}, 0, 1, pace, []float64{20, 0}, nil); got != nil {
		t.Errorf("took %v, though it is ten times as slow", got)
	}
	got := balance.Take(c, []int{0, 1, 2}, 0, 1, pace, []float64{30, 0}, nil)
	if len(got) != 1 || got[0] != 2 {
		t.Errorf("took %v, want the one host that is nearer", got)
	}
}
