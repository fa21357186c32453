package manager_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
	"sheaf/manager/hosts"
	"sheaf/manager/levelling"
)

// A host that an operator has assigned goes to its robot, with all at its address, and stays there:
// through the day's plan, through idle robots and newcomers. It is elsewhere only while its robot
// takes no part, and free again when the operator takes that back.
func TestAssignedHostsStay(t *testing.T) {
	names := dns{"a.test": "192.0.2.1", "b.test": "192.0.2.1", "c.test": "192.0.2.3", "d.test": "192.0.2.4"}
	s := startWith(t, names, levelling.Settings{During: true})
	secrets := map[string]string{"r1": s.join("r1"), "r2": s.join("r2")}
	s.add("http://a.test/", "http://c.test/", "http://d.test/", "http://b.test/")
	at := func(host string) string {
		t.Helper()
		h, err := s.Host(t.Context(), host)
		testkit.Must(t, err)
		return strings.Join(h.Robots, " ")
	}
	want := func(when, robot string) {
		t.Helper()
		if a, b := at("a.test"), at("b.test"); a != robot || b != robot {
			t.Errorf("%s: a.test is with %q and b.test with %q, want %q", when, a, b, robot)
		}
	}
	pin := func(robot string) {
		t.Helper()
		done, err := s.Registry.Assign(t.Context(), hosts.AssignRequest{Hosts: []string{"a.test"}, Robot: robot, Reason: "its line"})
		if err != nil || !slices.Equal(done.Hosts, []string{"a.test", "b.test"}) {
			t.Fatalf("assigned %v, %v", done, err)
		}
	}
	slow := map[string]string{"r1": "r2", "r2": "r1"}[at("a.test")] // the other
	quick := at("a.test")
	pin(slow)
	want("assigned", slow)
	s.had("r1", "r2")
	for robot, secret := range secrets {
		lines := ""
		for host := range names {
			lines += exchange(host, 100, map[string]int{quick: 10, slow: 90_000}[robot])
		}
		s.submit(robot, secret, "20261120", lines)
	}
	_, err := s.Rebalance(t.Context(), false)
	testkit.Must(t, err)
	want("after the plan", slow)
	if at("c.test") != quick || at("d.test") != quick {
		t.Errorf("the plan left c.test at %s and d.test at %s", at("c.test"), at("d.test"))
	}
	for robot, phase := range map[string]wire.Phase{quick: wire.PhaseIdle, slow: wire.PhaseCollecting} {
		_, err := s.m.Heartbeat(t.Context(), robot, wire.Heartbeat{Phase: phase, Cycle: 1, All: true, Left: 1000, Crowded: 5, EveryMS: 1000})
		testkit.Must(t, err)
	}
	_, err = s.HandOver(t.Context(), slow, time.Now())
	testkit.Must(t, err)
	want("with an idle robot", slow)
	s.join("r3")
	want("with a newcomer", slow)
	testkit.Must(t, s.Unsubscribe(t.Context(), slow))
	if a := at("a.test"); a == slow || a == "" {
		t.Errorf("its robot is away: a.test is with %q", a)
	}
	testkit.Must(t, s.Subscribe(t.Context(), slow))
	want("its robot is back", slow)
	pin("")
	_, err = s.Rebalance(t.Context(), false)
	testkit.Must(t, err)
	if at("a.test") == slow {
		t.Error("taken back, it stays at the slow robot")
	}
}

// A pin holds for all hosts of an address, also for those that come there later: a new one, and one
// that moves there. A pinned host that moves takes the hosts of its new address along.
func TestPinsHoldForHostsThatCome(t *testing.T) {
	names := dns{"a.test": "192.0.2.1", "b.test": "192.0.2.2", "c.test": "192.0.2.1", "d.test": "192.0.2.4"}
	s := startWith(t, names, levelling.Settings{})
	s.join("r1")
	s.add("http://a.test/")
	s.join("r2")
	s.add("http://b.test/", "http://d.test/")
	host := func(name string) hosts.Host {
		t.Helper()
		h, err := s.Host(t.Context(), name)
		testkit.Must(t, err)
		return h
	}
	owner := func(name string) string { return strings.Join(host(name).Robots, " ") }
	home, other := owner("a.test"), map[string]string{"r1": "r2", "r2": "r1"}[owner("a.test")]
	pin := func(name, robot string) {
		t.Helper()
		_, err := s.Registry.Assign(t.Context(), hosts.AssignRequest{Hosts: []string{name}, Robot: robot, Reason: "its line"})
		testkit.Must(t, err)
	}
	pin("b.test", other)
	pin("d.test", other)
	pin("a.test", home)
	pin("d.test", "")
	want := func(when, robot string, names ...string) {
		t.Helper()
		for _, name := range names {
			if h := host(name); h.Pinned != robot || h.PinReason != "its line" || owner(name) != robot {
				t.Errorf("%s: %s is pinned to %q (%s) and at %q, want %s", when, name, h.Pinned, h.PinReason, owner(name), robot)
			}
		}
	}
	s.add("http://c.test/")
	want("a new host", home, "a.test", "c.test")
	testkit.Must(t, s.m.Hosts.ReportAddresses(t.Context(), home, map[string][]string{"c.test": {"192.0.2.4"}}))
	want("a pinned host has moved to others", home, "c.test", "d.test")
	testkit.Must(t, s.m.Hosts.ReportAddresses(t.Context(), home, map[string][]string{"a.test": {"192.0.2.2"}}))
	want("a pinned host has moved to another robot's", other, "a.test", "b.test")
	testkit.Must(t, s.Unsubscribe(t.Context(), other))
	if owner("a.test") != home || owner("b.test") != home {
		t.Errorf("their robot is away: a.test is at %q, b.test at %q", owner("a.test"), owner("b.test"))
	}
	testkit.Must(t, s.Subscribe(t.Context(), other))
	want("it is back", other, "a.test", "b.test")
}

// Another robot that is admitted under the name of one that was removed gets nothing that was
// assigned to that one, and the plan has these hosts again.
func TestRemovedRobotsHaveNothingAssigned(t *testing.T) {
	s := start(t, dns{"a.test": "192.0.2.1", "b.test": "192.0.2.2"})
	s.join("r1")
	s.join("r2")
	s.add("http://a.test/", "http://b.test/")
	for _, host := range []string{"a.test", "b.test"} {
		_, err := s.Registry.Assign(t.Context(), hosts.AssignRequest{Hosts: []string{host}, Robot: "r1", Reason: "its line"})
		testkit.Must(t, err)
	}
	testkit.Must(t, s.Revoke(t.Context(), "r1", time.Time{}))
	testkit.Must(t, s.Forget(t.Context(), "r1"))
	s.join("r1")
	for _, host := range []string{"a.test", "b.test"} {
		h, err := s.Host(t.Context(), host)
		testkit.Must(t, err)
		if h.Pinned != "" || h.PinReason != "" {
			t.Errorf("%s is assigned to %s: %s", host, h.Pinned, h.PinReason)
		}
	}
	if _, mine := s.list("r1"); len(mine) == 2 {
		t.Errorf("the newcomer has %v", mine)
	}
}

// What cannot be is refused, and says why.
func TestAssignmentsThatCannotBe(t *testing.T) {
	s := start(t, dns{"a.test": "192.0.2.1", "b.test": "192.0.2.2", "c.test": "192.0.2.3"})
	s.join("r1")
	s.add("http://a.test/", "http://b.test/")
	testkit.Must(t, s.RemoveHost(t.Context(), "b.test"))
	_, err := s.AddHosts(t.Context(), []string{"http://c.test/"}, nil, assign.Replication{Copies: 2})
	testkit.Must(t, err)
	for _, c := range []struct {
		host, robot, reason, says string
	}{
		{"a.test", "r1", " ", "reason is missing"},
		{"a.test", "r2", "x", "takes no part"},
		{"b.test", "r1", "x", "is not collected"},
		{"c.test", "r1", "x", "several robots"},
		{"d.test", "r1", "x", "d.test"},
	} {
		_, err := s.Registry.Assign(t.Context(), hosts.AssignRequest{Hosts: []string{c.host}, Robot: c.robot, Reason: c.reason})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s to %s: %v, want %q", c.host, c.robot, err, c.says)
		}
	}
}
