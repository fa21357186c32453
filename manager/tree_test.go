package manager_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/levelling"
)

// Operators see the tree of the robots at work, what each is due, and what they will hand on: only
// hosts that they have not begun, as many as then pass.
func TestTreeIsShown(t *testing.T) {
	t.Parallel()
	for _, begun := range []bool{false, true} {
		t.Run(fmt.Sprintf("begun %v", begun), func(t *testing.T) {
			t.Parallel()
			showTree(t, begun)
		})
	}
}

func showTree(t *testing.T, begun bool) {
	s := startWith(t, dns{}, levelling.Settings{During: true})
	left := map[string]int64{"r1": 900, "r2": 0, "r3": 300}
	secrets := map[string]string{"r1": s.join("r1")}
	s.add("http://a.test/", "http://b.test/", "http://c.test/", "http://d.test/")
	s.had("r1")
	first := wire.Heartbeat{Phase: wire.PhaseCollecting, Cycle: 1, Left: left["r1"], All: true, Hosts: map[string]wire.HostProgress{}}
	var log strings.Builder
	for _, host := range []string{"a.test", "b.test", "c.test", "d.test"} {
		log.WriteString(exchange(host, 100, 1000))
		if begun {
			first.Hosts[host] = wire.HostProgress{State: wire.HostBegun, Left: 225}
		}
	}
	s.submit("r1", secrets["r1"], "1", log.String())
	secrets["r2"], secrets["r3"] = s.join("r2"), s.join("r3")
	beat := func(name string, hb wire.Heartbeat) {
		t.Helper()
		body, err := json.Marshal(hb)
		testkit.Must(t, err)
		if resp, text := s.do(http.MethodPost, "/v1/robots/"+name+"/heartbeat", name, secrets[name], body); resp.StatusCode != http.StatusOK {
			t.Fatal(text)
		}
	}
	shown := func() (a manager.BalanceResponse) {
		t.Helper()
		s.operator(http.MethodGet, api.PathAdminBalance, &a)
		return a
	}
	beat("r1", first)
	for _, name := range []string{"r2", "r3"} {
		beat(name, wire.Heartbeat{Phase: wire.PhaseCollecting, Cycle: 1, Left: left[name]})
	}
	for range 7 {
		testkit.Must(t, s.Level(t.Context(), time.Now()))
	}
	before := shown()
	if before.Left != 1200 || before.Mean != 400 || len(before.Tree) != 3 || before.Tree[0].Parent != "" || math.Abs(before.Tree[0].Over) > 1e-9 {
		t.Errorf("%d left, %.0f on the mean, %+v", before.Left, before.Mean, before.Tree)
	}
	for _, n := range before.Tree {
		if n.Left != left[n.Robot] || n.Due != 400 {
			t.Errorf("%+v, of which 400 are due to each robot", n)
		}
	}
	if begun != (len(before.Passing) == 0) || len(before.Levelled) > 0 {
		t.Fatalf("shown to pass on are %+v, to have been passed on %+v", before.Passing, before.Levelled)
	}

	had := map[string]int{}
	for name := range left {
		_, hosts := s.list(name)
		had[name] = len(hosts)
	}
	for _, p := range before.Passing {
		if had["r1"], had[p.To] = had["r1"]-p.Hosts, had[p.To]+p.Hosts; p.From != "r1" || p.URLs != float64(p.Hosts) {
			t.Errorf("shown are %+v; only r1 has too much, of hosts with one page", before.Passing)
		}
	}
	beat("r1", first)
	for name, want := range had {
		if _, hosts := s.list(name); len(hosts) != want {
			t.Errorf("%s has %v, after %+v passed it was to have %d", name, hosts, before.Passing, want)
		}
	}
	after := shown()
	if slices.ContainsFunc(after.Passing, func(p levelling.Passing) bool { return p.From == "r1" }) {
		t.Errorf("after r1 has passed on its part, shown are %+v", after.Passing)
	}
	if !begun && (len(after.Levelled) != 1 || !reflect.DeepEqual(after.Levelled[0].Passed, before.Passing)) {
		t.Errorf("shown to have been passed on are %+v, before were %+v", after.Levelled, before.Passing)
	}
}
