package manager_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/hosts"
)

// A host that gives no answer is not counted as done, and says why; of each host the last visit is
// shown, by the service's clock, also in the cycles after it.
func TestLastVisitsOfHosts(t *testing.T) {
	s := start(t, dns{"a.test": "192.0.2.1", "b.test": "192.0.2.2", "c.test": "192.0.2.3"})
	s.join("r1")
	s.add("http://a.test/", "http://b.test/", "http://c.test/")
	beat := func(hb wire.Heartbeat) {
		t.Helper()
		hb.Phase = wire.PhaseCollecting
		hb.Clock = &wire.Clock{OffsetMS: 7_200_000} // which does not matter
		_, err := s.m.Heartbeat(t.Context(), "r1", hb)
		testkit.Must(t, err)
	}
	show := func(host string) hosts.LastVisit {
		t.Helper()
		var h hosts.Host
		s.operator("GET", "/v1/admin/hosts/"+host, &h)
		if h.Name != host || len(h.Robots) != 1 || len(h.Visits) > 1 {
			t.Fatalf("%+v", h)
		}
		if len(h.Visits) == 0 {
			return hosts.LastVisit{}
		}
		return h.Visits[0]
	}
	earliest := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	beat(wire.Heartbeat{Cycle: 1, All: true, Hosts: map[string]wire.HostProgress{
		"a.test": {State: wire.HostDone, Pages: 7, Bytes: 700, Status: 200, AgoMS: 3_600_000},
		"b.test": {State: wire.HostDone},
	}, Unanswered: map[string]string{"b.test": "dns", "c.test": "timeout"}})
	latest := time.Now().Add(-time.Hour)
	a, b, c := show("a.test"), show("b.test"), show("c.test")
	if a.Status != 200 || a.Pages != 7 || a.Bytes != 700 || a.Why != "" || a.Robot != "r1" || a.At.Before(earliest) || a.At.After(latest) {
		t.Errorf("a.test: %+v", a)
	}
	if b.Why != "dns" || c.Why != "timeout" || b.Status != 0 {
		t.Errorf("b.test: %+v, c.test: %+v", b, c)
	}
	count := func(done, mute int64) {
		t.Helper()
		list, err := s.Backlogs(t.Context())
		testkit.Must(t, err)
		if list[0].Done != done || list[0].Unanswered != mute {
			t.Errorf("%d hosts are done and %d give no answer, want %d and %d", list[0].Done, list[0].Unanswered, done, mute)
		}
	}
	count(1, 2)
	beat(wire.Heartbeat{Cycle: 2, All: true, Hosts: map[string]wire.HostProgress{"c.test": {State: wire.HostBegun, Status: 404, AgoMS: 1}}})
	if a, c = show("a.test"), show("c.test"); a.Pages != 7 || c.Why != "" {
		t.Errorf("in the next cycle: a.test %+v, c.test %+v", a, c)
	}
	count(0, 1)
	beat(wire.Heartbeat{Cycle: 2, Unanswered: map[string]string{"b.test": ""}})
	count(0, 0)
	beat(wire.Heartbeat{Cycle: 2, Hosts: map[string]wire.HostProgress{"b.test": {State: wire.HostDone, AgoMS: 3_600_000}}, Unanswered: map[string]string{"b.test": "timeout"}})
	if b = show("b.test"); b.Why != "timeout" || b.At.After(time.Now().Add(-time.Hour)) {
		t.Errorf("b.test gave no answer an hour ago: %+v", b)
	}
	beat(wire.Heartbeat{Cycle: 2, Unanswered: map[string]string{"b.test": ""}})
	var list manager.HostsResponse
	s.operator("GET", "/v1/admin/hosts", &list)
	if len(list.Hosts) != 3 || list.Hosts[0].Visits[0].Pages != 7 || list.Hosts[1].Visits[0].Why != "" {
		t.Errorf("%+v", list)
	}
	if resp, body := s.do("GET", "/v1/admin/hosts/no.test", "", "", nil, "X-Operator", "1"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a host that there is not: %d %s", resp.StatusCode, body)
	}
}

// A robot tells of hosts that it has or had, and of no others. A host is in trouble if its last
// visit got no answer, whichever robot made it.
func TestLastVisitsAreOfTheRobotsHosts(t *testing.T) {
	s := start(t, dns{"a.test": "192.0.2.1", "b.test": "192.0.2.2"})
	s.join("r1")
	s.add("http://a.test/")
	s.join("r2")
	s.add("http://b.test/")
	beat := func(robot string, hb wire.Heartbeat) {
		t.Helper()
		hb.Phase, hb.Cycle = wire.PhaseCollecting, 1
		_, err := s.m.Heartbeat(t.Context(), robot, hb)
		testkit.Must(t, err)
	}
	troubled := func(want ...string) {
		t.Helper()
		var list manager.HostsResponse
		s.operator("GET", "/v1/admin/hosts?unanswered=true", &list)
		var names []string
		for _, h := range list.Hosts {
			names = append(names, h.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("in trouble are %v, want %v", names, want)
		}
	}
	beat("r1", wire.Heartbeat{
		Hosts:      map[string]wire.HostProgress{"b.test": {State: wire.HostDone, Pages: 1, Status: 200, AgoMS: 1}, "invented1.test": {State: wire.HostDone}},
		Unanswered: map[string]string{"a.test": "dns", "b.test": "timeout", "invented2.test": "dns"},
	})
	troubled("a.test")
	var rows int
	testkit.Must(t, s.db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM visits`).Scan(&rows))
	if rows != 1 {
		t.Errorf("visits to %d hosts are noted, want 1", rows)
	}
	testkit.Must(t, s.Unsubscribe(t.Context(), "r1"))
	troubled("a.test") // nobody has visited it since
	beat("r2", wire.Heartbeat{Hosts: map[string]wire.HostProgress{"a.test": {State: wire.HostDone, Status: 200}}})
	troubled()
}
