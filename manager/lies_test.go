package manager_test

import (
	"encoding/json"
	"strings"
	"testing"

	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/levelling"
)

// A robot that tells what cannot be gets no hosts by it: its heartbeat is refused with a reason,
// and impossible speeds in logs and probes count for nothing.
func TestImpossibleFiguresCountForNothing(t *testing.T) {
	s := startWith(t, nil, manager.Balance{Probes: 3})
	honest, liar := s.join("r1"), s.join("r2")
	s.add("http://a.test/", "http://b.test/", "http://c.test/", "http://d.test/")
	for name, hb := range map[string]wire.Heartbeat{
		"bytes": {Bytes: 1 << 60}, "left": {Left: 1 << 55}, "host": {Hosts: map[string]wire.HostProgress{"a.test": {State: wire.HostDone, MS: 1 << 60}}},
	} {
		hb.Phase = wire.PhaseCollecting
		body, err := json.Marshal(hb)
		if err != nil {
			t.Fatal(err)
		}
		if resp, text := s.do("POST", "/v1/robots/r2/heartbeat", "r2", liar, body); resp.StatusCode != 400 || !strings.Contains(text, "bad_heartbeat") {
			t.Errorf("%s: %d %s", name, resp.StatusCode, text)
		}
	}
	var lines strings.Builder
	for _, host := range []string{"a.test", "b.test", "c.test", "d.test"} {
		lines.WriteString(exchange(host, 100, 1000))
	}
	s.submit("r1", honest, "1", lines.String())
	s.submit("r2", liar, "1", exchange("a.test", 1<<20, 0)+exchange("b.test", 100, 1000)) // 1 GiB in no time
	var plan levelling.Plan
	s.operator("POST", "/v1/admin/balance/rebalance", &plan)
	if plan.Measured != 5 {
		t.Errorf("planned from %d distances, want 5 without the impossible one", plan.Measured)
	}
	if _, mine := s.list("r2"); len(mine) > 2 {
		t.Errorf("the liar has %v", mine)
	}
}
