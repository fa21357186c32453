package manager_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
	"sheaf/manager/levelling"
)

// New hosts go to robots that are heard of. What a silent robot was given and never sent leaves it
// at once; what it was sent, and hosts at such an address, stay until its lease is over. If no
// robot is heard of, the fault is the service's, and all get their part.
func TestNewHostsGoToRobotsThatAreHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lease = 48 * time.Hour
		f := newFleet(t, lease, "r1", "r2")
		added := 0
		add := func(n int, address string) {
			t.Helper()
			at, urls := map[string][]string{}, []string(nil)
			for range n {
				added++
				host := fmt.Sprintf("h%d.test", added)
				at[host] = []string{address}
				if address == "" {
					at[host] = []string{fmt.Sprintf("192.0.2.%d", added)}
				}
				urls = append(urls, "http://"+host+"/")
			}
			_, err := f.Hosts.AddHosts(t.Context(), urls, at, assign.Replication{})
			testkit.Must(t, err)
		}
		have := func(what string, want ...int64) {
			t.Helper()
			robots, err := f.Roster.Robots(t.Context())
			testkit.Must(t, err)
			if robots[0].Hosts != want[0] || robots[1].Hosts != want[1] {
				t.Errorf("%s: r1 has %d hosts and r2 %d, want %v", what, robots[0].Hosts, robots[1].Hosts, want)
			}
		}
		// pass lets time pass, while the manager does what is due and some robots send heartbeats.
		pass := func(d time.Duration, live ...string) {
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- f.Run(ctx) }()
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Minute) {
				for _, robot := range live {
					testkit.Must(t, f.Authenticate(t.Context(), robot, f.secrets[robot]))
					_, err := f.Heartbeat(t.Context(), robot, wire.Heartbeat{Phase: wire.PhaseResting})
					testkit.Must(t, err)
				}
			}
			stop()
			<-ended
		}
		add(2, "")
		have("at first", 1, 1)
		f.fetch("r1", "r2")
		pass(10*time.Minute, "r1", "r2")
		add(2, "")
		have("both are heard of", 2, 2) // r2 is not sent its second
		pass(6*time.Minute, "r1")       // its heartbeat is not overdue for long
		pass(10*time.Minute, "r1")
		have("r2 is silent", 3, 1)
		_, lines, err := f.Assignments.List(t.Context(), "r1")
		testkit.Must(t, err)
		for _, l := range lines {
			if l.Wait {
				t.Errorf("r1 has to wait for %s, which r2 was never sent", l.URL)
			}
		}
		add(4, "")
		have("more come", 7, 1)
		_, lines, err = f.Assignments.List(t.Context(), "r2")
		testkit.Must(t, err)
		add(1, "192.0.2."+lines[0].URL[len("http://h"):len("http://h")+1])
		have("one comes at the address of what r2 was sent", 7, 2)
		pass(time.Hour, "r1")
		have("it does not go to and fro", 7, 2)
		pass(10*time.Minute, "r1", "r2")
		add(4, "")
		have("r2 is heard of again", 7, 6)
		pass(time.Hour)
		add(2, "")
		have("nobody is heard of", 8, 7)
	})
}

// A robot that takes part again gets its share at once, though its last heartbeat is an old one.
func TestReturningRobotsGetTheirShare(t *testing.T) {
	wait := func(t *testing.T, f *fleet) { // a day, at the end of which r1 is heard of
		time.Sleep(24 * time.Hour)
		testkit.Must(t, f.Authenticate(t.Context(), "r1", f.secrets["r1"]))
		_, err := f.Heartbeat(t.Context(), "r1", wire.Heartbeat{Phase: wire.PhaseResting, EveryMS: 60_000})
		testkit.Must(t, err)
	}
	for name, leave := range map[string]func(*testing.T, *fleet){
		"unsubscribed": func(t *testing.T, f *fleet) {
			testkit.Must(t, f.Roster.Unsubscribe(t.Context(), "r2"))
			wait(t, f)
			testkit.Must(t, f.Authenticate(t.Context(), "r2", f.secrets["r2"]))
			testkit.Must(t, f.Roster.Subscribe(t.Context(), "r2"))
		},
		"dead": func(t *testing.T, f *fleet) {
			testkit.Must(t, f.Roster.Dead(t.Context(), "r2", "its disk is gone"))
			wait(t, f)
			testkit.Must(t, f.Authenticate(t.Context(), "r2", f.secrets["r2"]))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, time.Hour, "r1", "r2")
				at, urls := map[string][]string{}, []string(nil)
				for n := range 6 {
					host := fmt.Sprintf("h%d.test", n)
					at[host], urls = []string{fmt.Sprintf("192.0.2.%d", n+1)}, append(urls, "http://"+host+"/")
				}
				_, err := f.Hosts.AddHosts(t.Context(), urls, at, assign.Replication{})
				testkit.Must(t, err)
				_, err = f.Heartbeat(t.Context(), "r2", wire.Heartbeat{Phase: wire.PhaseResting, EveryMS: 60_000})
				testkit.Must(t, err)
				leave(t, f)
				robots, err := f.Roster.Robots(t.Context())
				testkit.Must(t, err)
				if robots[1].Hosts != 3 {
					t.Errorf("r2 is back and has %d of 6 hosts, want 3", robots[1].Hosts)
				}
			})
		})
	}
}

// The day's plan gives nothing to a robot that is silent, and takes nothing from it.
func TestPlanLeavesSilentRobotsAlone(t *testing.T) {
	s := startWith(t, dns{"a.test": "192.0.2.1", "b.test": "192.0.2.2", "c.test": "192.0.2.3", "d.test": "192.0.2.4"}, levelling.Settings{})
	secrets := map[string]string{"r1": s.join("r1"), "r2": s.join("r2"), "r3": s.join("r3")}
	s.add("http://a.test/", "http://b.test/", "http://c.test/", "http://d.test/")
	s.had("r1", "r2", "r3")
	for robot, secret := range secrets {
		lines := ""
		for _, host := range []string{"a.test", "b.test", "c.test", "d.test"} {
			lines += exchange(host, 100, map[string]int{"r1": 9000, "r2": 9000, "r3": 10}[robot])
		}
		s.submit(robot, secret, "20261120", lines)
	}
	before := map[string]int64{}
	robots, err := s.Robots(t.Context())
	testkit.Must(t, err)
	for _, r := range robots {
		before[r.Name] = r.Hosts
	}
	_, err = s.db.ExecContext(t.Context(), `UPDATE robots SET seen = 1 WHERE name = 'r3'`)
	testkit.Must(t, err)
	_, err = s.Rebalance(t.Context(), false)
	testkit.Must(t, err)
	if robots, err = s.Robots(t.Context()); err != nil || robots[2].Hosts != before["r3"] || robots[0].Hosts+robots[1].Hosts != 4-before["r3"] {
		t.Errorf("%v before, after the plan %+v, %v", before, robots, err)
	}
	_, err = s.db.ExecContext(t.Context(), `UPDATE robots SET seen = ? WHERE name = 'r3'`, time.Now().UnixMilli())
	testkit.Must(t, err)
	_, err = s.Rebalance(t.Context(), false)
	testkit.Must(t, err)
	if robots, err = s.Robots(t.Context()); err != nil || robots[2].Hosts <= before["r3"] {
		t.Errorf("heard of again, the quick robot has %d hosts, %v", robots[2].Hosts, err)
	}
}
