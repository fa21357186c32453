package manager_test

import (
	"net/http"
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
	var list manager.HostsResponse
	s.operator("GET", "/v1/admin/hosts", &list)
	if len(list.Hosts) != 3 || list.Hosts[0].Visits[0].Pages != 7 || list.Hosts[1].Visits[0].Why != "" {
		t.Errorf("%+v", list)
	}
	if resp, body := s.do("GET", "/v1/admin/hosts/no.test", "", "", nil, "X-Operator", "1"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a host that there is not: %d %s", resp.StatusCode, body)
	}
}
