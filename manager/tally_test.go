package manager_test

import (
	"fmt"
	"testing"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/servicekey"
	"sheaf/manager"
	"sheaf/manager/assign"
)

// Two managers on one database share out hosts evenly that come one by one, while robots come and
// go. So the loads that each of them remembers are not outdated.
func TestTwoManagersShareOutEvenly(t *testing.T) {
	source := dbtest.Source(t)
	var managers []*manager.Manager
	for range 2 {
		d, err := db.Open(t.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		managers = append(managers, manager.New(d, manager.Options{Dir: t.TempDir(), Resolver: dns{}, Key: servicekey.Fixed(make([]byte, 64))}))
	}
	join := func(name string) {
		t.Helper()
		s := partsOf(t, managers[0])
		s.join(name)
	}
	n := 0
	add := func(hosts int) {
		t.Helper()
		for range hosts {
			n++
			m := managers[n*7%3%2]
			if _, err := m.Hosts.AddHosts(t.Context(), []string{fmt.Sprintf("http://h%d.test/", n)}, nil, assign.Replication{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	level := func(robots ...string) {
		t.Helper()
		least, most := n, 0
		for _, robot := range robots {
			_, lines, err := managers[1].Assignments.List(t.Context(), robot)
			if err != nil {
				t.Fatal(err)
			}
			least, most = min(least, len(lines)), max(most, len(lines))
		}
		if most-least > 1 {
			t.Errorf("with %d hosts robots have from %d to %d", n, least, most)
		}
	}
	join("r1")
	add(3)
	join("r2")
	add(20)
	level("r1", "r2")
	if err := managers[0].Hosts.RemoveHost(t.Context(), "h5.test"); err != nil {
		t.Fatal(err)
	}
	add(10)
	level("r1", "r2")
	if err := managers[1].Roster.Unsubscribe(t.Context(), "r2"); err != nil {
		t.Fatal(err)
	}
	add(5)
	if err := managers[0].Roster.Subscribe(t.Context(), "r2"); err != nil {
		t.Fatal(err)
	}
	add(20)
	level("r1", "r2")
}
