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

// Operators see the tree of the robots at work, what each is due, and what the last levellings had
// them pass on.
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
		left[n.Robot] -= 400
	}
	for _, round := range a.Flows {
		for _, f := range round {
			left[f.From] -= int64(f.URLs)
			left[f.To] += int64(f.URLs)
		}
	}
	for robot, over := range left {
		if over != 0 {
			t.Errorf("after the flows %v, %s would have %d URLs too many", a.Flows, robot, over)
		}
	}
	if len(a.Levelled) != 1 || a.Levelled[0].Left != 1200 || len(a.Levelled[0].Flows) == 0 {
		t.Errorf("of the last levellings it shows %+v", a.Levelled)
	}
}
