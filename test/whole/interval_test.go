package whole

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/manager/hosts"
	"sheaf/test/servicetest"
)

// An operator sets an interval for a host whose owner allows it. The robot keeps that one at the
// host's address and its own elsewhere, and a host that shares its address with another gets no
// shorter one. Where several pages a visit are set, the interval lies between the visits. Where the
// interval may shrink it does, because the server stays quick.
func TestIntervalOfAHost(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const usual, set = time.Second, 100 * time.Millisecond
	var mu sync.Mutex
	visits := map[string][]time.Time{} // by host
	web := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		visits[r.Host] = append(visits[r.Host], time.Now())
		mu.Unlock()
		switch {
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case r.URL.Path == "/" && strings.Contains("quick.test several.test shrinks.test", r.Host):
			for n := range 12 {
				fmt.Fprintf(w, "<a href=/%d>x</a>", n)
			}
		default:
			fmt.Fprintf(w, "<p>%s of %s", r.URL.Path, r.Host)
		}
	})
	at := map[string]string{"quick.test": "127.71.0.1", "usual.test": "127.71.0.2", "first.test": "127.71.0.3", "second.test": "127.71.0.3", "several.test": "127.71.0.4", "shrinks.test": "127.71.0.5"}
	servers := map[string]string{} // by IP address
	for host, ip := range at {
		if servers[ip] == "" {
			l, err := net.Listen("tcp", ip+":0")
			testkit.Must(t, err)
			srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: web}}
			srv.Start()
			t.Cleanup(srv.Close)
			servers[ip] = strings.TrimPrefix(srv.URL, "http://")
		}
		at[host] = servers[ip]
	}
	s := servicetest.Start(t, servicetest.Quiet())
	robot := s.CollectOnce("r1", usual, at)
	s.Operate(http.MethodPost, "/v1/admin/hosts/interval", hosts.IntervalRequest{Hosts: []string{"quick.test", "first.test"}, Interval: set.String(), Reason: "its owner, by mail"}, nil)
	const longest = 300 * time.Millisecond
	s.Operate(http.MethodPost, "/v1/admin/hosts/interval", hosts.IntervalRequest{
		Hosts: []string{"shrinks.test"}, Interval: longest.String(), Shortest: set.String(), Reason: "its owner, by mail",
	}, nil)
	pages := 4
	s.Operate(http.MethodPost, "/v1/admin/hosts/interval", hosts.IntervalRequest{Hosts: []string{"several.test"}, Pages: &pages, Reason: "its owner, by mail"}, nil)
	testkit.Must(t, robot.Cycle(t.Context()))

	least := func(hosts ...string) time.Duration {
		var all []time.Time
		for _, host := range hosts {
			all = append(all, visits[host]...)
		}
		gap := time.Hour
		for i, a := range all {
			for _, b := range all[i+1:] {
				gap = min(gap, a.Sub(b).Abs())
			}
		}
		return gap
	}
	mu.Lock()
	defer mu.Unlock()
	if n := len(visits["quick.test"]); n < 13 {
		t.Errorf("%d visits", n)
	}
	if gap := least("quick.test"); gap < set || gap >= usual {
		t.Errorf("%v between two visits where %v is set", gap, set)
	}
	if gap := least("shrinks.test"); gap < set || gap >= longest {
		t.Errorf("%v between two visits where %v may shrink to %v", gap, longest, set)
	}
	in := 1 // pages of a visit
	for i, at := range visits["several.test"][1:] {
		if in++; at.Sub(visits["several.test"][i]) >= usual {
			in = 1
		}
		if in > pages+1 { // robots.txt comes with the first
			t.Errorf("%d pages without an interval between them, want %d", in, pages)
		}
	}
	if n := len(visits["several.test"]); n < 13 || least("several.test") >= usual {
		t.Errorf("%d pages, the nearest two %v from each other, where a visit may have %d", n, least("several.test"), pages)
	}
	if gap := least("usual.test"); gap < usual {
		t.Errorf("%v between two visits where nothing is set", gap)
	}
	if gap := least("first.test", "second.test"); gap < usual {
		t.Errorf("%v between two visits to an address of two hosts, one of which has nothing set", gap)
	}
}
