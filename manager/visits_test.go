package manager_test

import (
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// TestVisitIsOrderedUntilItIsTaken shows that an operator's order to visit a host is sent to the
// robot that has the host until the robot has noted it, and to no other.
func TestVisitIsOrderedUntilItIsTaken(t *testing.T) {
	t.Parallel()
	s := start(t, dns{"www.a.jp": "192.0.2.1", "www.b.jp": "192.0.2.2"})
	s.join("r1")
	s.join("r2")
	s.add("http://www.a.jp/", "http://www.b.jp/")
	if _, err := s.OrderVisits(t.Context(), []string{"www.a.jp", "www.unknown.jp"}); err == nil || !strings.Contains(err.Error(), "www.unknown.jp") {
		t.Errorf("a host that is not collected: %v", err)
	}
	beat := func(robot string, taken ...string) []string {
		t.Helper()
		orders, err := s.m.Heartbeat(t.Context(), robot, wire.Heartbeat{Phase: wire.PhaseIdle, All: true, Taken: taken})
		testkit.Must(t, err)
		return orders.Visits
	}
	if v := append(beat("r1"), beat("r2")...); len(v) != 0 {
		t.Errorf("a refused order is sent: %v", v)
	}
	told, err := s.OrderVisits(t.Context(), []string{"www.a.jp"})
	testkit.Must(t, err)
	if len(told["www.a.jp"]) != 1 {
		t.Fatalf("told %v", told)
	}
	owner, other := "r1", "r2"
	if told["www.a.jp"][0] == "r2" {
		owner, other = other, owner
	}
	for range 2 {
		if v := beat(owner); len(v) != 1 || v[0] != "www.a.jp" {
			t.Errorf("%s is ordered %v", owner, v)
		}
	}
	if v := beat(other, "www.a.jp"); len(v) != 0 { // and another robot cannot note it
		t.Errorf("%s is ordered %v", other, v)
	}
	if v := beat(owner); len(v) != 1 {
		t.Errorf("the order is gone before its robot took it: %v", v)
	}
	if v := beat(owner, "www.a.jp"); len(v) != 0 {
		t.Errorf("ordered again: %v", v)
	}
}
