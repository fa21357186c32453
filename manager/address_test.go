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
	"sheaf/manager/hosts"
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

// A robot that reaches a host only at the higher of its addresses tells so. A look-up that names
// both does not undo that: another robot might be given the hosts of the address that this one
// visits.
func TestRefreshKeepsTheAddressInUse(t *testing.T) {
	d, err := db.Open(t.Context(), dbtest.Source(t))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	table := dns{"a.test": "192.0.2.1 192.0.2.2"}
	m := manager.New(d, manager.Options{Resolver: table, Key: servicekey.Fixed(make([]byte, 64))})
	partsOf(t, m).join("r1")
	if _, err := m.Hosts.AddHosts(t.Context(), []string{"http://a.test/"}, nil, assign.Replication{}); err != nil {
		t.Fatal(err)
	}
	want := func(when, group string) {
		t.Helper()
		list, err := m.Hosts.Hosts(t.Context(), hosts.Filter{}, "", 10)
		if err != nil || len(list) != 1 || list[0].Group != group {
			t.Errorf("%s: %+v, %v; want group %s", when, list, err, group)
		}
	}
	refresh := func() {
		t.Helper()
		if n, err := m.Hosts.RefreshAddresses(t.Context(), time.Now().Add(time.Hour)); n != 1 || err != nil {
			t.Fatalf("found %d, %v", n, err)
		}
	}
	want("added", "192.0.2.1")
	if err := m.Hosts.ReportAddresses(t.Context(), "r1", map[string][]string{"a.test": {"192.0.2.2"}}); err != nil {
		t.Fatal(err)
	}
	want("reported", "192.0.2.2")
	refresh()
	want("looked up", "192.0.2.2")
	table["a.test"] = "192.0.2.1 192.0.2.3"
	refresh()
	want("no longer there", "192.0.2.1")
	if _, err = d.ExecContext(t.Context(), `UPDATE hosts SET resolved = ?`, db.Millis(time.Now().AddDate(1, 0, 0))); err != nil {
		t.Fatal(err)
	}
	table["a.test"] = "192.0.2.4"
	refresh()
	want("looked up last by a clock that was ahead", "192.0.2.4")
}
