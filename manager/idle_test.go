package manager_test

import (
	"database/sql"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/servicekey"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/assign"
	"sheaf/manager/levelling"
)

// night is robots in a bubble whose hosts the test chooses.
type night struct {
	*fleet
	db *sql.DB
}

func newNight(t *testing.T, robots ...string) *night {
	t.Helper()
	d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "sheaf.db"))
	testkit.Must(t, err)
	t.Cleanup(func() { d.Close() })
	m := manager.New(d, manager.Options{Resolver: dns{}, Dir: t.TempDir(), Key: servicekey.Fixed(make([]byte, 64)), Balance: levelling.Settings{Lease: lease, During: true}})
	return &night{&fleet{m, t, joined(t, m, robots...), map[string]int64{}}, d}
}

// give adds hosts with addresses of their own, NAME-0.test and so on, and gives them to a robot.
func (n *night) give(robot, name string, count int) (hosts []string) {
	n.t.Helper()
	at := map[string][]string{}
	var urls []string
	for k := range count {
		host := fmt.Sprintf("%s-%d.test", name, k)
		hosts, urls, at[host] = append(hosts, host), append(urls, "http://"+host+"/"), []string{fmt.Sprintf("192.0.%d.%d", name[0], k)}
	}
	_, err := n.Hosts.AddHosts(n.t.Context(), urls, at, assign.Replication{})
	testkit.Must(n.t, err)
	testkit.Must(n.t, n.Assignments.Change(n.t.Context(), func(tx *assign.Tx) error {
		for _, other := range slices.Sorted(maps.Keys(n.secrets)) {
			if other == robot {
				continue
			}
			for _, host := range hosts {
				if _, err := tx.Move(n.t.Context(), assign.Transfer{Hosts: []string{host}, From: other, To: robot}); err != nil {
					return err
				}
			}
		}
		return nil
	}))
	return hosts
}

// has returns how many hosts a robot has.
func (n *night) has(robot string) int {
	n.t.Helper()
	_, lines, err := n.Assignments.List(n.t.Context(), robot)
	testkit.Must(n.t, err)
	return len(lines)
}

func (n *night) beat(robot string, hb wire.Heartbeat) wire.Orders {
	n.t.Helper()
	hb.Generation, hb.Cycle, hb.EveryMS = n.works[robot], 1, 60_000
	orders, err := n.Heartbeat(n.t.Context(), robot, hb)
	testkit.Must(n.t, err)
	return orders
}

// An idle robot is given hosts again and again, although it has hosts that it cannot reach, and has
// not begun for that.
func TestIdleRobotGetsMore(t *testing.T) {
	for name, begun := range map[string]bool{"that were not begun": false, "that were begun": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNight(t, "r1", "r2")
				n.give("r1", "busy", 12)
				n.give("r2", "dead", 12)
				n.fetch("r1", "r2")
				for round := range 3 {
					_, lines, err := n.Assignments.List(t.Context(), "r1")
					testkit.Must(t, err)
					hb := wire.Heartbeat{Phase: wire.PhaseCollecting, All: true, Pages: int64(100 * (round + 1)), Left: 1000 * int64(len(lines)), Crowded: 5, Hosts: map[string]wire.HostProgress{}}
					for _, l := range lines {
						if u, _ := url.Parse(l.URL); begun {
							hb.Hosts[u.Host] = wire.HostProgress{State: wire.HostBegun, Pages: 10, Left: 1000}
						}
					}
					before := n.has("r2")
					n.beat("r2", wire.Heartbeat{Phase: wire.PhaseIdle, Pages: 100})
					n.beat("r1", hb)
					time.Sleep(time.Minute)
					n.beat("r2", wire.Heartbeat{Phase: wire.PhaseIdle, Pages: 100})
					hb.Pages += 50
					n.beat("r1", hb)
					if got := n.has("r2") - before; got == 0 {
						t.Errorf("round %d: the idle robot got nothing of %d hosts", round, len(lines))
					}
					n.fetch("r1", "r2")
					time.Sleep(time.Minute)
				}
			})
		})
	}
}

// A robot measures at most two hosts at a time, and the next as soon as one is answered. What it
// does not answer, such as after a kill, it is asked again within minutes of its time.
func TestProbesAreAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNight(t, "r1", "r2")
		hosts := n.give("r1", "far", 5)
		n.fetch("r1", "r2")
		for _, host := range hosts {
			_, err := n.db.ExecContext(t.Context(), `INSERT INTO probes (robot, host, asked) VALUES ('r2', ?, 0)`, host)
			testkit.Must(t, err)
		}
		asked := map[string][]time.Time{}
		minutes := func(count int, answers map[string]wire.ProbeResult) {
			t.Helper()
			for range count {
				n.fetch("r1", "r2")
				for _, p := range n.beat("r2", wire.Heartbeat{Phase: wire.PhaseIdle, Probes: answers}).Probes {
					u, err := url.Parse(p.URL)
					testkit.Must(t, err)
					asked[u.Host] = append(asked[u.Host], time.Now())
				}
				answers = nil
				time.Sleep(time.Minute)
			}
		}
		minutes(10, nil)
		if len(asked) != 2 || len(asked[hosts[0]]) != 1 {
			t.Fatalf("within ten minutes it is asked for %v, want two probes", asked)
		}
		minutes(3, map[string]wire.ProbeResult{hosts[0]: {Files: 10, Bytes: 1000, MS: 100}})
		if len(asked) != 3 {
			t.Errorf("after an answer it is asked for %v, want a third probe", asked)
		}
		minutes(12, nil)
		again := asked[hosts[1]]
		if len(again) != 2 || again[1].Sub(again[0]) > assign.ProbeTime+5*time.Minute {
			t.Errorf("the probe without an answer is asked for at %v", again)
		}
		minutes(60, nil)
		if again := asked[hosts[1]]; len(again) != 2 {
			t.Errorf("in vain, it is asked for at %v: its own robot waits each time", again)
		}
		if len(asked[hosts[0]]) != 1 {
			t.Errorf("the answered probe is asked for at %v", asked[hosts[0]])
		}
	})
}
