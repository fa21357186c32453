package manager_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/servicekey"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/assign"
	"sheaf/manager/hosts"
)

// A report of many hosts, new and known, some of them repeated, is taken whole. Each host is with
// one robot, hosts of one address are with the same, and new start URLs of known hosts are on the
// lists.
func TestManyHostsAtOnce(t *testing.T) {
	const many = 1203
	names := dns{}
	for n := range many {
		names[fmt.Sprintf("h%d.test", n)] = fmt.Sprintf("192.0.2.%d", n%7)
	}
	s := start(t, names)
	robots := []string{"a", "b", "c"}
	for _, r := range robots {
		s.join(r)
	}
	s.add("http://h3.test/", "http://h1200.test/")
	var lines []wire.HostLine
	for n := range many {
		url := fmt.Sprintf("http://h%d.test/found", n)
		lines = append(lines, wire.HostLine{URL: url}, wire.HostLine{URL: url + "2"}, wire.HostLine{URL: url})
	}
	for turn, want := range []hosts.Report{{Accepted: many - 2, Known: 2}, {Known: many}} {
		got, err := s.Discover(t.Context(), "a", lines)
		if err != nil || got != want {
			t.Fatalf("turn %d: %+v, %v; want %+v", turn, got, err, want)
		}
	}
	var all []string
	for _, r := range robots {
		_, urls := s.list(r)
		all = append(all, urls...)
	}
	want := []string{"http://h3.test/", "http://h1200.test/"}
	for _, l := range lines {
		want = append(want, l.URL)
	}
	slices.Sort(want)
	slices.Sort(all)
	if !slices.Equal(all, slices.Compact(want)) {
		t.Errorf("the robots' lists have %d URLs, want %d", len(all), len(slices.Compact(want)))
	}
	list, err := s.Hosts(t.Context(), hosts.Filter{}, "", 2*many)
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]string{}
	for _, h := range list {
		if len(h.Robots) != 1 || at[h.Group] != "" && at[h.Group] != h.Robots[0] {
			t.Fatalf("%s of %s is with %v, others of its address with %q", h.Name, h.Group, h.Robots, at[h.Group])
		}
		at[h.Group] = h.Robots[0]
	}
}

// PerDomain counts the hosts of one report together with those of earlier reports.
func TestDomainsShareOfOneReport(t *testing.T) {
	d, err := db.Open(t.Context(), dbtest.Source(t))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m := manager.New(d, manager.Options{Key: servicekey.Fixed(make([]byte, 64)), Dir: t.TempDir(), Resolver: dns{}, Policy: hosts.Policy{Accept: []string{"com"}, PerDomain: 3}})
	for turn, want := range []hosts.Report{{Accepted: 2}, {Accepted: 1, Pending: 1}, {Pending: 2}} {
		got, err := m.Hosts.Discover(t.Context(), "a", []wire.HostLine{
			{URL: fmt.Sprintf("http://h%d.example.com/", 2*turn)}, {URL: fmt.Sprintf("http://h%d.example.com/", 2*turn+1)}})
		if err != nil || got != want {
			t.Errorf("turn %d: %+v, %v; want %+v", turn, got, err, want)
		}
	}
	if got, err := m.Hosts.Discover(t.Context(), "a", []wire.HostLine{
		{URL: "http://a.example.net.com/"}, {URL: "http://b.example.net.com/"}, {URL: "http://c.net.com/"}, {URL: "http://d.net.com/"}}); err != nil || got != (hosts.Report{Accepted: 3, Pending: 1}) {
		t.Errorf("one report: %+v, %v", got, err)
	}
}

// policed returns a manager with a policy.
func policed(t *testing.T, policy hosts.Policy) *manager.Manager {
	t.Helper()
	d, err := db.Open(t.Context(), dbtest.Source(t))
	testkit.Must(t, err)
	t.Cleanup(func() { d.Close() })
	return manager.New(d, manager.Options{Key: servicekey.Fixed(make([]byte, 64)), Dir: t.TempDir(), Resolver: dns{}, Policy: policy})
}

// A robot enters only so many hosts in a day, and so do all together. Hosts that are known, and
// what operators add, are not counted.
func TestHostsOfADay(t *testing.T) {
	m := policed(t, hosts.Policy{Accept: []string{"test"}, PerRobot: 3, PerDay: 5})
	_, err := m.Hosts.AddHosts(t.Context(), []string{"http://known.test/"}, nil, assign.Replication{})
	testkit.Must(t, err)
	for n, c := range []struct {
		robot string
		names []string
		want  hosts.Report
	}{
		{"a", []string{"a1.test", "a2.jp", "known.test"}, hosts.Report{Accepted: 1, Pending: 1, Known: 1}},
		{"a", []string{"a2.jp", "a3.test", "a4.test", "known.test"}, hosts.Report{Accepted: 1, Known: 2, Over: 1}},
		{"b", []string{"b1.test", "b2.test", "b3.test"}, hosts.Report{Accepted: 2, Over: 1}},
		{"c", []string{"c1.test", "a1.test"}, hosts.Report{Known: 1, Over: 1}},
	} {
		var lines []wire.HostLine
		for _, name := range c.names {
			lines = append(lines, wire.HostLine{URL: "http://" + name + "/"})
		}
		if got, err := m.Hosts.Discover(t.Context(), c.robot, lines); err != nil || got != c.want {
			t.Errorf("report %d: %+v, %v; want %+v", n, got, err, c.want)
		}
	}
	watched := policed(t, hosts.Policy{Accept: []string{"test"}, PerDay: 1}).Hosts // what consumers watch takes no robot's room
	for _, source := range []string{hosts.SourceWatch, "a"} {
		lines := []wire.HostLine{{URL: "http://w" + source[:1] + strconv.Itoa(len(source)) + ".test/"}}
		if got, err := watched.Discover(t.Context(), source, lines); err != nil || got.Accepted != 1 {
			t.Errorf("a host of %s: %+v, %v", source, got, err)
		}
	}
	if got, err := m.Hosts.AddHosts(t.Context(), []string{"http://c1.test/"}, nil, assign.Replication{}); err != nil || got.Accepted != 1 {
		t.Errorf("an operator's host: %+v, %v", got, err)
	}
}

// What is not of the public Internet is never offered to operators, nor collected because every
// host is. An operator's setting may name it.
func TestPrivateHostsAreNotOffered(t *testing.T) {
	m := policed(t, hosts.Policy{Accept: []string{"*", "wiki.internal", "192.168.1.9"}})
	for url, want := range map[string]hosts.Report{
		"http://localhost:8080/": {Refused: 1}, "http://127.0.0.1/": {Refused: 1}, "http://10.0.0.3:81/": {Refused: 1}, "http://[::1]/": {Refused: 1}, "http://[fc00::7]/": {Refused: 1},
		"http://printer.local/": {Refused: 1}, "http://0x7f.1:99/": {Refused: 1}, "http://intranet/": {Refused: 1}, "http://a.internal/": {Refused: 1},
		"http://a.wiki.internal/": {Accepted: 1}, "http://192.168.1.9/": {Accepted: 1}, "http://local.example.jp/": {Accepted: 1},
	} {
		if got, err := m.Hosts.Discover(t.Context(), "a", []wire.HostLine{{URL: url}}); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", url, got, err, want)
		}
	}
}

// A host at a port that is not the web's waits for an operator.
func TestHostsAtOddPortsWait(t *testing.T) {
	m := policed(t, hosts.Policy{Accept: []string{"test"}, Refuse: []string{"bad.test"}, Ports: []int{80, 443, 8080}})
	for url, want := range map[string]hosts.Report{
		"http://a.test/": {Accepted: 1}, "https://b.test/": {Accepted: 1}, "http://c.test:443/": {Accepted: 1}, "http://d.test:8080/": {Accepted: 1},
		"http://e.test:21/": {Pending: 1}, "http://[2606:4700::1111]:22/": {Pending: 1}, "http://f.bad.test:21/": {Refused: 1},
	} {
		if got, err := m.Hosts.Discover(t.Context(), "a", []wire.HostLine{{URL: url}}); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", url, got, err, want)
		}
	}
}
