package manager_test

import (
	"context"
	"path/filepath"
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

// bubble returns a manager for use in a synctest bubble, a function that returns the number of a
// robot's hosts, and the secrets of the robots, which have joined.
func bubble(t *testing.T, opt levelling.Settings, robots ...string) (*manager.Manager, func(robot string) int, map[string]string) {
	t.Helper()
	d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "sheaf.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	m := manager.New(d, manager.Options{Resolver: dns{}, Dir: t.TempDir(), Key: servicekey.Fixed(make([]byte, 64)), Balance: opt})
	secrets := joined(t, m, robots...)
	return m, func(robot string) int {
		_, lines, err := m.Assignments.List(t.Context(), robot)
		if err != nil {
			t.Fatal(err)
		}
		return len(lines)
	}, secrets
}

// joined has robots join a manager and subscribe, and returns their secrets.
func joined(t *testing.T, m *manager.Manager, robots ...string) map[string]string {
	t.Helper()
	secrets := map[string]string{}
	for _, robot := range robots {
		token, _, err := m.Roster.Admit(t.Context(), robot)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := m.Roster.Join(t.Context(), wire.JoinRequest{Token: token, PublicKey: make([]byte, 32)})
		if err != nil {
			t.Fatal(err)
		}
		secrets[robot] = answer.Secret
		if err := m.Roster.Subscribe(t.Context(), robot); err != nil {
			t.Fatal(err)
		}
	}
	return secrets
}

// A robot that is silent for the lease loses its hosts to another until it is heard of again. Its
// late batch is judged by the hosts that it had.
func TestSilentRobotsHostsAreHandedOn(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lease = 6 * time.Hour
		m, hosts, secrets := bubble(t, levelling.Settings{Lease: lease}, "r1", "r2")
		if _, err := m.Hosts.AddHosts(t.Context(), []string{"http://a.test/", "http://b.test/", "http://c.test/", "http://d.test/"}, nil, assign.Replication{}); err != nil {
			t.Fatal(err)
		}
		call := func(robot string) {
			t.Helper()
			(&fleet{m, t, secrets, map[string]int64{}}).fetch(robot)
		}
		call("r1")
		call("r2")
		run := func(d time.Duration, live ...string) { // the manager is there, and these robots call
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- m.Run(ctx) }()
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Minute) {
				for _, robot := range live {
					call(robot)
				}
			}
			stop()
			<-ended
		}
		_, lines, err := m.Assignments.List(t.Context(), "r2")
		if err != nil || len(lines) != 2 {
			t.Fatalf("r2 has %v, %v", lines, err)
		}
		run(lease-time.Hour, "r1")
		if hosts("r2") != 2 {
			t.Error("handed on before the lease's end")
		}
		run(lease+10*time.Minute, "r1")
		if a, b := hosts("r1"), hosts("r2"); a != 4 || b != 0 {
			t.Fatalf("after the lease r1 has %d hosts and r2 %d, want all with r1", a, b)
		}
		had := []string{wireHost(t, lines[0].URL), wireHost(t, lines[1].URL)}
		if held, err := m.HeldUntil(t.Context(), "r2", had); err != nil || held[had[0]].IsZero() || held[had[1]].IsZero() {
			t.Errorf("its late batch would not be taken: %v, %v", held, err)
		}
		robots, err := m.Roster.Robots(t.Context())
		if err != nil || robots[1].Lapsed.IsZero() || !robots[1].Subscribed || !robots[0].Lapsed.IsZero() {
			t.Errorf("shown as %+v, %v", robots, err)
		}
		call("r2")
		if a, b := hosts("r1"), hosts("r2"); a != 2 || b != 2 {
			t.Errorf("heard of again: r1 has %d hosts and r2 %d, want two each", a, b)
		}

		run(2*lease, "r1")         // r2 is silent again
		time.Sleep(72 * time.Hour) // the manager's disk fails, as in 1999, and it hears nobody
		run(lease-time.Hour, "r2") // r2 is the first to call again
		if a, b := hosts("r1"), hosts("r2"); a+b != 4 || a == 0 {
			t.Errorf("after the manager's own absence r1 has %d hosts and r2 %d: r1 was given no time to call", a, b)
		}
		run(2*lease, "r1", "r2")
		before := hosts("r1")
		run(3 * lease) // nobody calls: the fault is the service's
		if hosts("r1") != before || hosts("r1")+hosts("r2") != 4 {
			t.Errorf("with nobody heard of r1 has %d hosts, r2 %d", hosts("r1"), hosts("r2"))
		}
	})
}

func wireHost(t *testing.T, url string) string {
	t.Helper()
	_, host, err := wire.NormalizeURL(url)
	if err != nil {
		t.Fatal(err)
	}
	return host
}

// The day's plan is made once, at its time in the service's zone, and not hours later.
func TestPlanIsDueOnceADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins on Saturday 2000-01-01 00:00 UTC, 09:00 in Tokyo
		tokyo := time.FixedZone("Asia/Tokyo", 9*3600)
		m, _, _ := bubble(t, levelling.Settings{At: "01:00", Zone: tokyo}, "r1")
		due := func() bool {
			t.Helper()
			due, err := m.Levelling.PlanDue(t.Context(), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return due
		}
		if due() {
			t.Error("due at nine in the morning, eight hours late")
		}
		time.Sleep(15*time.Hour + 59*time.Minute) // 00:59
		if due() {
			t.Error("due before its time")
		}
		time.Sleep(2 * time.Minute)
		if !due() {
			t.Error("not due at 01:01")
		}
		if _, err := m.Levelling.Rebalance(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if due() {
			t.Error("due again")
		}
		yesterday, err := m.Levelling.PlanDue(t.Context(), time.Now().AddDate(0, 0, -1))
		if err != nil || !yesterday {
			t.Errorf("by a clock that was a day ahead when the plan was made, none is due, %v", err)
		}
		time.Sleep(24 * time.Hour)
		if !due() {
			t.Error("not due on the next day")
		}
	})
}
