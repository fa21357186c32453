package main

import (
	"math"
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/manager/balance"
)

// Figure 10 of paper 001 comes out as printed, and the costs that are drawn have the sums of Table 2.
func TestWhatThePapersSay(t *testing.T) {
	rows, err := flows()
	testkit.Must(t, err)
	if got := strings.Trim(rows[0].Ours, "[]"); got != rows[0].Published {
		t.Errorf("Figure 10 is %s, want %s", got, rows[0].Published)
	}
	costs, err := paperCosts(1)
	testkit.Must(t, err)
	for i, want := range alone {
		plan := make([]int, paperHosts)
		for j := range plan {
			plan[j] = i
		}
		if got := balance.Plan(plan).Loads(costs)[i]; math.Abs(got-want) > 1 {
			t.Errorf("robot %d alone takes %.0f ms, Table 2 has %.0f", i, got, want)
		}
	}
}

// The policies are compared on the same trace, and a page that was never visited is stale.
func TestTrace(t *testing.T) {
	pages, err := trace(1000)
	testkit.Must(t, err)
	if len(pages) < 300 {
		t.Fatalf("%d pages", len(pages))
	}
	p := &tracked{changes: []int{3, 7}, last: -1}
	for day, want := range map[int]bool{3: false, 6: false} {
		if p.current(day) != want {
			t.Errorf("day %d, never visited: %t", day, p.current(day))
		}
	}
	p.visit(4)
	for day, want := range map[int]bool{4: true, 6: true, 7: false, 9: false} {
		if p.current(day) != want {
			t.Errorf("day %d, visited on day 4: %t", day, p.current(day))
		}
	}
}
