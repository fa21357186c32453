package balance_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/manager/balance"
)

func TestReplanMovesFew(t *testing.T) {
	testkit.Slow(t)
	var ratios, moves []float64
	for seed := range bounded(t, "SHEAF_BALANCE_INSTANCES", testkit.Size(1, 2)) {
		r := rand.New(rand.NewPCG(uint64(seed), 11))
		today := world(r, 7, 103)
		from := balance.Optimal(costsOf(t, today)).Plan
		for j := range today[0] { // tomorrow every host and every way is somewhat different
			host := math.Exp(0.3 * r.NormFloat64())
			for i := range today {
				today[i][j] *= host * math.Exp(0.2*r.NormFloat64())
			}
		}
		c := costsOf(t, today)
		got, err := balance.Replan(c, from)
		if err != nil {
			t.Fatal(err)
		}
		if m := got.Plan.Makespan(c); math.Abs(m-got.Makespan) > 1e-6*m {
			t.Fatalf("makespan %v, said %v", m, got.Makespan)
		}
		ratios = append(ratios, got.Makespan/got.Bound)
		moves = append(moves, float64(got.Plan.Moved(from))/103)
	}
	slices.Sort(ratios)
	slices.Sort(moves)
	half := len(ratios) / 2
	t.Logf("makespan over bound: median %.4f, worst %.4f; moved: median %.3f, most %.3f", ratios[half], ratios[len(ratios)-1], moves[half], moves[len(moves)-1])
	if ratios[len(ratios)-1] > 1.07 || moves[half] > 0.10 {
		t.Errorf("%.4f of the bound at worst, with %.2f of the hosts moved at the median; want at most 1.07 and 0.10", ratios[len(ratios)-1], moves[half])
	}
	if tail := moves[len(moves)*9/10]; tail > 0.15 {
		t.Errorf("one plan in ten moves %.2f of the hosts or more, want at most 0.15", tail)
	}
}

func TestReplanLeavesAGoodPlanAlone(t *testing.T) {
	c := costsOf(t, world(rand.New(rand.NewPCG(4, 4)), 5, 80))
	from := balance.Optimal(c).Plan
	got, err := balance.Replan(c, from)
	if err != nil || got.Plan.Moved(from) != 0 {
		t.Errorf("%d hosts moved, %v", got.Plan.Moved(from), err)
	}
}

func TestReplanWithARobotGoneAndHostsNew(t *testing.T) {
	rows := world(rand.New(rand.NewPCG(6, 6)), 4, 60)
	from := balance.Optimal(costsOf(t, rows)).Plan[:50]
	for j := range rows[2] {
		rows[2][j] = math.Inf(1)
	}
	got, err := balance.Replan(costsOf(t, rows), from)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(got.Plan, 2) || len(got.Plan) != 60 || got.Makespan > 1.08*got.Bound {
		t.Errorf("plan %v, %.3f of the bound", got.Plan, got.Makespan/got.Bound)
	}
	if _, err := balance.Replan(costsOf(t, rows), make(balance.Plan, 61)); err == nil {
		t.Error("a plan of more hosts than there are was gone on from")
	}
}
