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
	state := balance.Night{Waiting: make([][]int, c.Robots), Busy: make([]float64, c.Robots), Pace: make([]float64, c.Robots)}
	for j, i := range plan {
		state.Waiting[i] = append(state.Waiting[i], j)
	}
	free, thought := make([]float64, c.Robots), make([]float64, c.Robots) // when each is next free; what its hosts were thought to take
	for {
		i := -1
		for n := range free {
			if (len(state.Waiting[n]) > 0 || take && free[n] < end) && (i < 0 || free[n] < free[i]) {
				i = n
			}
		}
		if i < 0 {
			return end
		}
		if len(state.Waiting[i]) == 0 {
			for n := range free {
				state.Busy[n] = max(0, free[n]-free[i])
				if thought[n] > 0 {
					state.Pace[n] = max(free[n], 1) / thought[n]
				}
			}
			moves := balance.Take(c, state, i)
			if len(moves) == 0 {
				free[i] = end // nothing to be had: done for the night
				continue
			}
			for _, m := range moves {
				from := state.Waiting[m.From]
				state.Waiting[m.From] = slices.Delete(from, slices.Index(from, m.Host), slices.Index(from, m.Host)+1)
				state.Waiting[i] = append(state.Waiting[i], m.Host)
			}
		}
		j := state.Waiting[i][0]
		state.Waiting[i] = state.Waiting[i][1:]
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
	busy := []float64{0, 0}
	if got := balance.Take(c, balance.Night{Waiting: [][]int{{0, 1}, {}}, Busy: busy}, 1); got != nil {
		t.Errorf("took %v, though it is ten times as slow", got)
	}
	got := balance.Take(c, balance.Night{Waiting: [][]int{{0, 1, 2}, {}}, Busy: busy}, 1)
	if len(got) != 1 || got[0] != (balance.Transfer{Host: 2, From: 0, To: 1}) {
		t.Errorf("took %v, want the one host that is nearer", got)
	}
}
