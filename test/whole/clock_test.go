package whole

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"sheaf/cmd/sheaf/service"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/test/servicetest"
)

// The clock by which the service keeps robots' leases goes a year ahead and back, and a year behind
// and back, while a robot works. The robot keeps its host, every cycle is published, and nothing
// goes to the quarantine.
func TestClockOfAServiceAtWorkJumps(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	var pages atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, "<p>page %d", pages.Add(1))
	}))
	defer web.Close()
	const host, year = "site.example.jp", 365 * 24 * time.Hour
	var ahead atomic.Int64
	settings := servicetest.Quiet()
	settings["publish.window"] = "always"
	s := servicetest.Start(t, settings, service.WithClock(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }))
	robot := s.Robot("r1", host, web.Listener.Addr().String())
	for n, by := range []time.Duration{0, year, 0, -year, 0} {
		ahead.Store(int64(by))
		testkit.Must(t, robot.Cycle(t.Context()))
		testkit.Must(t, robot.Drain(t.Context()))
		if got := pages.Load(); got != int64(n+1) {
			t.Errorf("by a clock that is %v ahead, after %d cycles, the page was fetched %d times", by, n+1, got)
		}
		var known manager.HostsResponse
		s.Operate(http.MethodGet, api.PathAdminHosts, nil, &known)
		if len(known.Hosts) != 1 || len(known.Hosts[0].Robots) != 1 || known.Hosts[0].Robots[0] != "r1" {
			t.Errorf("by a clock that is %v ahead, the hosts are %+v", by, known.Hosts)
		}
	}
	var list struct {
		Batches []struct {
			State wire.State `json:"state"`
		} `json:"batches"`
	}
	s.Operate(http.MethodGet, api.PathAdminBatches+"?limit=10", nil, &list)
	if len(list.Batches) != 5 {
		t.Errorf("there are %d batches, want 5", len(list.Batches))
	}
	for _, b := range list.Batches {
		if b.State != wire.StatePublished {
			t.Errorf("a batch is %s", b.State)
		}
	}
}
