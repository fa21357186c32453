package manager_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// What operators are shown is what passes: hosts that nobody has begun, and from each robot no more
// than it has of them.
func TestWhatIsShownPasses(t *testing.T) {
	for begun, want := range map[int]float64{0: 16, 20: 4, 23: 1, 24: 0} {
		t.Run(fmt.Sprintf("%d of 24 begun", begun), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNight(t, "r1", "r2", "r3")
				hosts := n.give("r1", "busy", 24)
				n.fetch("r1", "r2", "r3")
				hb := wire.Heartbeat{Phase: wire.PhaseCollecting, All: true, Left: 24, Hosts: map[string]wire.HostProgress{}}
				for _, host := range hosts[:begun] {
					hb.Hosts[host] = wire.HostProgress{State: wire.HostBegun, Left: 1}
				}
				n.beat("r1", hb)
				n.beat("r2", wire.Heartbeat{Phase: wire.PhaseCollecting})
				n.beat("r3", wire.Heartbeat{Phase: wire.PhaseCollecting})
				before := map[string]int{}
				for robot := range n.secrets {
					before[robot] = n.has(robot)
				}
				testkit.Must(t, n.Levelling.Level(t.Context(), time.Now()))
				status, err := n.Levelling.Status(t.Context())
				testkit.Must(t, err)
				shown, all := map[string]float64{}, 0.0
				for _, round := range status.Flows {
					for _, f := range round {
						shown[f.From] -= f.URLs
						shown[f.To] += f.URLs
						all += f.URLs
					}
				}
				if math.Abs(all-want) > 1e-9 {
					t.Errorf("%.0f URLs are to pass, want %.0f of hosts with one URL each: %v", all, want, status.Flows)
				}
				if noted := len(status.Levelled) == 1 && status.Levelled[0].Left == 24; noted != (want > 0) {
					t.Errorf("levellings: %v", status.Levelled)
				}
				hb.All, hb.Hosts = false, nil
				n.beat("r1", hb)
				n.beat("r2", wire.Heartbeat{Phase: wire.PhaseCollecting})
				n.beat("r3", wire.Heartbeat{Phase: wire.PhaseCollecting})
				for robot := range n.secrets {
					if got := n.has(robot) - before[robot]; float64(got) != shown[robot] {
						t.Errorf("%s has %+d hosts, and %+.0f were shown", robot, got, shown[robot])
					}
				}
				if status, err = n.Levelling.Status(t.Context()); err != nil || len(status.Flows) > 0 {
					t.Errorf("when all has passed it shows %v, %v", status.Flows, err)
				}
			})
		})
	}
}
