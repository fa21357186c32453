package manager_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager/hosts"
)

// lists has four clients fetch the lists of all robots, which are the first ones of nearly all, and
// then once more. It reports how long half and 99 % of them take at most.
func (s *atSize) lists() {
	const clients = 4
	for _, which := range []string{"first-list", "list"} {
		spent := make([]time.Duration, len(s.robots))
		var clientsDone sync.WaitGroup
		for c := range clients {
			clientsDone.Go(func() {
				for i := c; i < len(s.robots); i += clients {
					began := time.Now()
					s.call("GET", "/list", s.robots[i], nil)
					spent[i] = time.Since(began)
				}
			})
		}
		clientsDone.Wait()
		slices.Sort(spent)
		s.quantity(milliseconds(spent[len(spent)/2]), "ms-p50/"+which+"-4-clients")
		s.quantity(milliseconds(spent[len(spent)*99/100]), "ms-p99/"+which+"-4-clients")
	}
}

// heartbeats has robots report all their hosts twice: first as begun, then as done. It reports how
// many heartbeats the manager takes in a second, by the clock and by its CPU.
func (s *atSize) heartbeats() {
	const robots, hostsEach = 50, 1000
	for _, state := range []wire.HostState{wire.HostBegun, wire.HostDone} {
		bodies := map[string][]byte{}
		for _, robot := range s.robots[3:min(3+robots, len(s.robots))] { // those before are for hand-overs
			hb := wire.Heartbeat{Version: "1", Phase: wire.PhaseCollecting, Cycle: 1, Left: 1000, Hosts: map[string]wire.HostProgress{}}
			found, err := s.m.Hosts.Hosts(s.b.Context(), hosts.Filter{Robot: robot}, "", hostsEach)
			testkit.Must(s.b, err)
			for n, h := range found {
				hb.Hosts[h.Name] = wire.HostProgress{State: state, Pages: int64(n), Bytes: int64(n) << 14, MS: int64(n) << 5}
			}
			bodies[robot], err = json.Marshal(hb)
			testkit.Must(s.b, err)
		}
		began, spent := time.Now(), cpu()
		for robot, body := range bodies {
			s.call("POST", "/heartbeat", robot, body)
		}
		s.quantity(float64(len(bodies))/time.Since(began).Seconds(), "/s-heartbeats-"+string(state))
		s.quantity(float64(len(bodies))/(cpu()-spent), "/CPU-s-heartbeats-"+string(state))
	}
}

// lookUps reports how long it takes to look up what does not depend on the number of hosts.
func (s *atSize) lookUps() {
	ctx := s.b.Context()
	const times = 1000
	for _, lookUp := range []struct {
		of   string
		once func(n int) error
	}{
		{"host", func(n int) error {
			found, err := s.m.Hosts.Hosts(ctx, hosts.Filter{}, fmt.Sprintf("h%07d.tes", n), 1)
			if err == nil && len(found) != 1 {
				err = fmt.Errorf("host %d was not found", n)
			}
			return err
		}},
		{"assignment", func(n int) error {
			_, err := s.m.Assignments.HeldUntil(ctx, s.robots[n%len(s.robots)], []string{fmt.Sprintf("h%07d.test", n)})
			return err
		}},
		{"robot", func(n int) error {
			robot := s.robots[n%len(s.robots)]
			return s.m.Roster.Authenticate(ctx, robot, s.secrets[robot])
		}},
	} {
		began := time.Now()
		for n := range times {
			testkit.Must(s.b, lookUp.once(n*(s.hosts/times+1)%s.hosts))
		}
		s.quantity(float64(time.Since(began).Microseconds())/times, "µs/look-up-of-"+lookUp.of)
	}
}

// quantity reports a figure.
func (s *atSize) quantity(n float64, unit string) {
	s.b.Logf("%s: %.3f", unit, n)
	s.report(n, unit)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
