package manager_test

import (
	"crypto/ed25519"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/assign"
	"sheaf/manager/hosts"
)

// TestDecideInBulk shows that an operator can decide about many pending hosts at once, and that
// other hosts stay pending.
func TestDecideInBulk(t *testing.T) {
	t.Parallel()
	s := start(t, dns{"www.a.example.com": "192.0.2.1", "www.b.example.com": "192.0.2.1"})
	s.join("r1")
	s.join("r2")
	for robot, urls := range map[string][]string{
		"r1": {"http://www.a.example.com/", "http://www.b.example.com/", "http://www.c.example.org/"},
		"r2": {"http://www.d.example.org/", "http://www.e.example.net:8080/"},
	} {
		var lines []wire.HostLine
		for _, u := range urls {
			lines = append(lines, wire.HostLine{URL: u})
		}
		report, err := s.Discover(t.Context(), robot, lines)
		if err != nil || report.Pending != len(urls) {
			t.Fatalf("%+v, %v", report, err)
		}
	}
	decide := func(req hosts.DecideRequest, want int) {
		t.Helper()
		if n, err := s.Decide(t.Context(), req); err != nil || n != want {
			t.Errorf("%+v: %d hosts, %v; want %d", req, n, err, want)
		}
	}
	waiting := func() (names string) {
		t.Helper()
		found, err := s.Hosts(t.Context(), hosts.Filter{State: hosts.Pending}, "", 100)
		testkit.Must(t, err)
		for _, h := range found {
			names += h.Name + " "
		}
		return names
	}
	if _, err := s.Decide(t.Context(), hosts.DecideRequest{State: hosts.Accepted, Hosts: []string{"www.a.example.com", "www.unknown.example.com"}}); err == nil ||
		!strings.Contains(err.Error(), "www.unknown.example.com") {
		t.Errorf("an unknown host: %v", err)
	}
	if got := waiting(); len(strings.Fields(got)) != 5 {
		t.Fatalf("after a refused decision %s wait", got)
	}
	decide(hosts.DecideRequest{State: hosts.Refused, Domain: "example.org", FoundBy: "r2"}, 1)
	decide(hosts.DecideRequest{State: hosts.Accepted, Domain: "example.com"}, 2)
	if got := waiting(); got != "www.c.example.org www.e.example.net:8080 " {
		t.Errorf("%s wait", got)
	}
	a, err := s.Hosts(t.Context(), hosts.Filter{State: hosts.Accepted}, "", 100)
	testkit.Must(t, err)
	if len(a) != 2 || len(a[0].Robots) != 1 || a[0].Group != a[1].Group {
		t.Errorf("accepted %+v; want two hosts of one address, at one robot", a)
	}
	decide(hosts.DecideRequest{State: hosts.Refused, Hosts: []string{"www.e.example.net:8080"}}, 1)
	decide(hosts.DecideRequest{State: hosts.Accepted, All: true}, 1)
	if got := waiting(); got != "" {
		t.Errorf("%s wait", got)
	}
	if _, err := s.Decide(t.Context(), hosts.DecideRequest{State: hosts.Pending, All: true}); err == nil {
		t.Error("state pending was taken as a decision")
	}
}

// TestUnreachableNames shows that a host is not added if robots elsewhere cannot visit it.
func TestUnreachableNames(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	for url, bad := range map[string]bool{
		"http://localhost/": true, "http://LOCALHOST:8080/": true, "http://www.localhost/": true, "http://intranet/": true,
		"http://intranet./": true, "http://www.a.jp/": false, "http://192.0.2.7/": false, "http://[2001:db8::1]:81/": false,
	} {
		if _, err := s.AddHosts(t.Context(), []string{url}, nil, assign.Replication{}); (err != nil) != bad {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestForget shows that a robot admitted under a wrong name can be deleted, and a working one
// cannot.
func TestForget(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	s.join("r1")
	if _, _, err := s.Admit(t.Context(), "tpyo"); err != nil {
		t.Fatal(err)
	}
	forget := func(name string) int {
		t.Helper()
		resp, _ := s.do("DELETE", "/v1/admin/robots/"+name+"?forget", "", "", nil, "X-Operator", "1")
		return resp.StatusCode
	}
	for _, c := range []struct {
		name string
		want int
	}{{"tpyo", http.StatusNoContent}, {"tpyo", http.StatusNotFound}, {"r1", http.StatusConflict}} {
		if got := forget(c.name); got != c.want {
			t.Errorf("forget %s: %d, want %d", c.name, got, c.want)
		}
	}
	testkit.Must(t, s.Revoke(t.Context(), "r1", time.Time{}))
	if got := forget("r1"); got != http.StatusNoContent {
		t.Errorf("forget the revoked robot: %d", got)
	}
	if robots, err := s.Robots(t.Context()); err != nil || len(robots) != 0 {
		t.Errorf("left: %+v, %v", robots, err)
	}
	s.join("r1") // its name is free again
}

// TestReleaseKeyForEarlierRobots shows that a robot that joined before there was a release key
// gets the key in answer to its report, signed by the service.
func TestReleaseKeyForEarlierRobots(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	secret := s.join("r1")
	report := func(body string) (int, wire.ReportAnswer) {
		t.Helper()
		resp, text := s.do("POST", "/v1/robots/r1/report", "r1", secret, []byte(body))
		var offer wire.ReportAnswer
		if resp.StatusCode == http.StatusOK {
			testkit.Must(t, json.Unmarshal([]byte(text), &offer))
		}
		return resp.StatusCode, offer
	}
	const keyless = `{"version":"1.0.0","platform":"linux-amd64","no_key":true}`
	if status, _ := report(keyless); status != http.StatusNoContent {
		t.Errorf("without a key there is an answer: %d", status)
	}
	public, _, err := minisign.GenerateKey(nil)
	testkit.Must(t, err)
	body, err := json.Marshal(manager.ReleaseKeyRequest{Key: public.String()})
	testkit.Must(t, err)
	if resp, text := s.do("PUT", "/v1/admin/releases/key", "", "", body, "X-Operator", "1"); resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
	status, offer := report(keyless)
	service := ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey)
	if status != http.StatusOK || offer.Release != "" || offer.Key == nil || offer.Key.Verify("r1", service) != nil || offer.Key.Verify("r2", service) == nil {
		t.Errorf("%d %+v; want the key, signed for r1 alone", status, offer)
	}
	if status, _ := report(`{"version":"1.0.0","platform":"linux-amd64"}`); status != http.StatusNoContent {
		t.Errorf("a robot that knows the key is sent it again: %d", status)
	}
}

// An interval that an operator sets is in the lists of the robots that have the host, and in the
// list of hosts with its reason, until it is taken back.
func TestIntervalsInLists(t *testing.T) {
	t.Parallel()
	s := start(t, dns{"www.a.example.com": "192.0.2.1", "www.b.example.com": "192.0.2.2"})
	s.join("r1")
	s.add("http://www.a.example.com/", "http://www.b.example.com/")
	set := func(q hosts.IntervalRequest, fault string) {
		t.Helper()
		if err := s.SetInterval(t.Context(), q); (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("%+v: %v, want %q", q, err, fault)
		}
	}
	listed := func(want time.Duration) (generation int64) {
		t.Helper()
		generation, lines, err := s.List(t.Context(), "r1")
		testkit.Must(t, err)
		for _, l := range lines {
			if of := map[string]time.Duration{"http://www.a.example.com/": want}[l.URL]; l.Interval != of {
				t.Errorf("%s: %v, want %v", l.URL, l.Interval, of)
			}
		}
		return generation
	}
	before := listed(0)
	a := []string{"www.a.example.com"}
	set(hosts.IntervalRequest{Hosts: a, Interval: "5s"}, "reason is missing")
	set(hosts.IntervalRequest{Hosts: a, Interval: "50ms", Reason: "asked"}, `interval "50ms"`)
	set(hosts.IntervalRequest{Hosts: a, Interval: "soon", Reason: "asked"}, `interval "soon"`)
	set(hosts.IntervalRequest{Interval: "5s", Reason: "asked"}, "hosts is empty")
	set(hosts.IntervalRequest{Hosts: append(a, "www.unknown.example.com"), Interval: "5s", Reason: "asked"}, "www.unknown.example.com")
	if listed(0) != before {
		t.Error("a request that was refused has changed the list")
	}
	set(hosts.IntervalRequest{Hosts: a, Interval: "5s", Reason: "its webmaster"}, "")
	if listed(5*time.Second) <= before {
		t.Error("the robot is not told that its list has changed")
	}
	found, err := s.Hosts(t.Context(), hosts.Filter{}, "", 1)
	testkit.Must(t, err)
	if h := found[0]; h.Interval != "5s" || h.Reason != "its webmaster" {
		t.Errorf("%+v", h)
	}
	pages := func(n int) *int { return &n }
	runs := func(want int) {
		t.Helper()
		_, lines, err := s.List(t.Context(), "r1")
		testkit.Must(t, err)
		if lines[0].RunPages != want || lines[1].RunPages != 0 {
			t.Errorf("%d and %d pages a visit, want %d and none", lines[0].RunPages, lines[1].RunPages, want)
		}
	}
	set(hosts.IntervalRequest{Hosts: a, Reason: "asked"}, "give at least one of them")
	set(hosts.IntervalRequest{Hosts: a, Pages: pages(10)}, "reason is missing")
	set(hosts.IntervalRequest{Hosts: a, Pages: pages(1001), Reason: "asked"}, "pages 1001")
	set(hosts.IntervalRequest{Hosts: a, Pages: pages(-1), Reason: "asked"}, "pages -1")
	set(hosts.IntervalRequest{Hosts: a, Pages: pages(10), Reason: "its webmaster, again"}, "")
	listed(5 * time.Second) // stays
	runs(10)
	set(hosts.IntervalRequest{Hosts: a, Shortest: "2s"}, "reason is missing")
	set(hosts.IntervalRequest{Hosts: a, Interval: "5s", Shortest: "6s", Reason: "asked"}, "longer than the interval")
	set(hosts.IntervalRequest{Hosts: a, Shortest: "2s", Reason: "its webmaster, again"}, "")
	runs(10) // stay
	_, lines, err := s.List(t.Context(), "r1")
	testkit.Must(t, err)
	if lines[0].Shortest != 2*time.Second || lines[0].Interval != 5*time.Second || lines[1].Shortest != 0 {
		t.Errorf("%+v", lines)
	}
	set(hosts.IntervalRequest{Hosts: a, Shortest: "0s"}, "")
	set(hosts.IntervalRequest{Hosts: a, Interval: "0s"}, "")
	listed(0)
	runs(10)
	found, err = s.Hosts(t.Context(), hosts.Filter{}, "", 1)
	testkit.Must(t, err)
	if h := found[0]; h.Interval != "" || h.Pages != 10 {
		t.Errorf("%+v", h)
	}
	set(hosts.IntervalRequest{Hosts: a, Pages: pages(0)}, "")
	runs(0)
	found, err = s.Hosts(t.Context(), hosts.Filter{}, "", 1)
	testkit.Must(t, err)
	if h := found[0]; h.Pages != 0 || h.Reason != "" {
		t.Errorf("nothing is set any more: %+v", h)
	}
}
