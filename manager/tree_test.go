package manager_test

import (
	"encoding/json"
	"math"
	"net/http"
	"testing"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager"
)

// Operators see the tree of the robots at work and what each is due. Robots without hosts pass
// none.
func TestTreeIsShown(t *testing.T) {
	t.Parallel()
	s := startWith(t, dns{}, manager.Balance{During: true})
	left := map[string]int64{"r1": 900, "r2": 0, "r3": 300}
	for name, urls := range left {
		secret := s.join(name)
		body, err := json.Marshal(wire.Heartbeat{Phase: wire.PhaseCollecting, Cycle: 1, Left: urls})
		testkit.Must(t, err)
		if resp, text := s.do(http.MethodPost, "/v1/robots/"+name+"/heartbeat", name, secret, body); resp.StatusCode != http.StatusOK {
			t.Fatal(text)
		}
	}
	for range 7 {
		testkit.Must(t, s.Level(t.Context(), time.Now()))
	}
	var a manager.BalanceResponse
	s.operator(http.MethodGet, api.PathAdminBalance, &a)
	if a.Left != 1200 || a.Mean != 400 || len(a.Tree) != 3 || a.Tree[0].Parent != "" || math.Abs(a.Tree[0].Over) > 1e-9 {
		t.Errorf("%d left, %.0f on the mean, %+v", a.Left, a.Mean, a.Tree)
	}
	for _, n := range a.Tree {
		if n.Left != left[n.Robot] || n.Due != 400 {
			t.Errorf("%+v, of which 400 are due to each robot", n)
		}
		over := float64(n.Left) - n.Due
		for _, below := range a.Tree {
			if below.Parent == n.Robot {
				over += below.Over
			}
		}
		if math.Abs(n.Over-over) > 1e-9 {
			t.Errorf("%+v, and with all below it it has %.0f too many", n, over)
		}
	}
	if len(a.Flows) > 0 || len(a.Levelled) > 0 {
		t.Errorf("%v are to pass, %v were", a.Flows, a.Levelled)
	}
}
