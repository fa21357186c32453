package balance_test

import (
	"math/rand/v2"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/manager/balance"
)

// Every fifth host is to have three robots. They must be different ones, and each copy counts as
// a whole host.
func TestApartItemsGoToDifferentRobots(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const robots, hosts, copies = 8, 150, 3
	for seed := range testkit.Size(1, 3) {
		r := rand.New(rand.NewPCG(uint64(seed), 41))
		rows := world(r, robots, hosts)
		var apart [][]int
		for j := 0; j < hosts; j += 5 {
			set := []int{j}
			for range copies - 1 {
				set = append(set, len(rows[0]))
				for i := range rows {
					rows[i] = append(rows[i], rows[i][j])
				}
			}
			apart = append(apart, set)
		}
		c := costsOf(t, rows)
		from := make(balance.Plan, c.Hosts)
		for n := range from {
			from[n] = -1
		}
		got, err := balance.ReplanApart(c, from, apart)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%.3f of the bound without the condition", got.Makespan/got.Bound)
		if got.Makespan != got.Plan.Makespan(c) || got.Makespan > 1.25*got.Bound {
			t.Errorf("makespan %.0f, said %.0f, bound %.0f", got.Plan.Makespan(c), got.Makespan, got.Bound)
		}
		for _, set := range apart {
			at := map[int]bool{}
			for _, n := range set {
				at[got.Plan[n]] = true
			}
			if len(at) != copies {
				t.Errorf("host %d goes to %d robots, want %d", set[0], len(at), copies)
			}
		}
		again, err := balance.ReplanApart(c, got.Plan, apart)
		if err != nil {
			t.Fatal(err)
		}
		if moved := again.Plan.Moved(got.Plan); moved > c.Hosts/4 {
			t.Errorf("%d of %d moved, though nothing has changed", moved, c.Hosts)
		}
	}
	if _, err := balance.ReplanApart(costsOf(t, [][]float64{{1, 1}}), balance.Plan{-1, -1}, [][]int{{0, 1}}); err == nil {
		t.Error("two copies were planned for one robot")
	}
}
