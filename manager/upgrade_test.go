package manager_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"sheaf/internal/wire"
)

// An order to upgrade is repeated until the robot has asked for its release, even if there is
// none.
func TestUpgradeOrderIsToLookForTheRelease(t *testing.T) {
	s := start(t, nil)
	secret := s.join("robot-1")
	ordered := func() bool {
		t.Helper()
		body, err := json.Marshal(wire.Heartbeat{Version: "1.0.0", Phase: wire.PhaseIdle, All: true})
		if err != nil {
			t.Fatal(err)
		}
		resp, text := s.do("POST", "/v1/robots/robot-1/heartbeat", "robot-1", secret, body)
		var orders wire.Orders
		if resp.StatusCode == http.StatusOK {
			if err := json.Unmarshal([]byte(text), &orders); err != nil {
				t.Fatal(err)
			}
		}
		return slices.Contains(orders.Directives, wire.DirectiveUpgrade)
	}
	if ordered() {
		t.Error("told to upgrade, though nobody asked for it")
	}
	if resp, body := s.do("POST", "/v1/admin/robots/robot-1/upgrade", "", "", nil, "X-Operator", "1"); resp.StatusCode != http.StatusNoContent {
		t.Fatalf("upgrade: %d %s", resp.StatusCode, body)
	}
	if robots, err := s.Robots(t.Context()); err != nil || robots[0].Look.IsZero() {
		t.Errorf("shown as %+v, %v", robots, err)
	}
	for range 2 {
		if !ordered() {
			t.Error("not told until it has looked")
		}
	}
	resp, body := s.do("POST", "/v1/robots/robot-1/report", "robot-1", secret, []byte(`{"version":"1.0.0","platform":"linux-amd64","counter":0,"seen":0}`))
	if resp.StatusCode != http.StatusNoContent {
		t.Fatalf("report: %d %s", resp.StatusCode, body)
	}
	if ordered() {
		t.Error("told again, though it has looked and there is no release")
	}
}
