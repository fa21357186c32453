package manager_test

import (
	"errors"
	"testing"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/servicekey"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/assign"
)

// A host that the DNS did not find when it was added goes to the robot of its address once it is
// found.
func TestRefreshBringsLateAddressesTogether(t *testing.T) {
	d, err := db.Open(t.Context(), dbtest.Source(t))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	table := dns{}
	m := manager.New(d, manager.Options{Resolver: table, Key: servicekey.Fixed(make([]byte, 64))})
	parts := partsOf(t, m)
	parts.join("r1")
	parts.join("r2")
	if _, err := m.Hosts.AddHosts(t.Context(), []string{"http://a.test/", "http://b.test/"}, nil, assign.Replication{}); err != nil {
		t.Fatal(err)
	}
	lists := func() (one, two []wire.HostLine) {
		_, one, err1 := m.Assignments.List(t.Context(), "r1")
		_, two, err2 := m.Assignments.List(t.Context(), "r2")
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		return one, two
	}
	if one, two := lists(); len(one) != 1 || len(two) != 1 {
		t.Fatalf("before: %v and %v", one, two)
	}
	table["a.test"], table["b.test"] = "192.0.2.9", "192.0.2.9"
	if n, err := m.Hosts.RefreshAddresses(t.Context(), time.Now()); n != 2 || err != nil {
		t.Fatalf("found %d, %v", n, err)
	}
	if one, two := lists(); len(one)+len(two) != 2 || len(one) == 1 {
		t.Errorf("after: %v and %v; want both with one robot", one, two)
	}
	if n, err := m.Hosts.RefreshAddresses(t.Context(), time.Now().Add(-time.Hour)); n != 0 || err != nil {
		t.Errorf("asked again at once: %d, %v", n, err)
	}
}
