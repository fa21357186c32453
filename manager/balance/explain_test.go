package balance_test

import (
	"slices"
	"testing"

	"sheaf/manager/balance"
)

// A host that waits for its first robot goes from none.
func TestExplainNamesNoRobotOfAWaitingHost(t *testing.T) {
	t.Parallel()
	c, err := balance.NewCosts(2, 2, func(robot, host int) float64 { return float64(1 + robot) })
	if err != nil {
		t.Fatal(err)
	}
	robot := func(i int) string { return []string{"tokyo", "osaka"}[i] }
	host := func(j int) string { return []string{"a.example", "b.example"}[j] }
	r := balance.Result{Plan: balance.Plan{0, 1}, Makespan: 2, Bound: 1.3, Prices: []float64{0.6, 0.4}}
	why := balance.Explain(c, r, balance.Plan{-1, 1}, robot, host)
	if want := "Host a.example goes to robot tokyo: no robot has it now."; !slices.Contains(why, want) {
		t.Errorf("%q; want %q among them", why, want)
	}
}
