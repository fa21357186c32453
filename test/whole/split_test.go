package whole

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/manager"
	"sheaf/robotd"
	"sheaf/test/servicetest"
)

// Several robots share a host's URLs by their hash. Every page is visited exactly once, although
// each robot only finds the links of its own pages, and the server is never visited twice within
// the interval.
func TestRobotsShareAHost(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for _, robots := range []int{2, 3} {
		t.Run(fmt.Sprintf("%d robots", robots), func(t *testing.T) {
			t.Parallel()
			shareAHost(t, robots)
		})
	}
}

func shareAHost(t *testing.T, robots int) {
	interval, pages := 200*time.Millisecond, testkit.Size(20, 40)
	large := &sharedSite{pages: pages}
	web := httptest.NewServer(large)
	defer web.Close()
	h := newSharing(t)
	at := map[string]string{"www.large.example.jp": web.Listener.Addr().String()}
	for n := range robots {
		name := fmt.Sprintf("r%d", n+1)
		cfg := h.robot(name, at)
		cfg.Interval = interval
		servicetest.Run(t, name, func(ctx context.Context) error { return robotd.Run(ctx, cfg, slog.New(slog.DiscardHandler)) })
	}
	// At first a host has one robot, which begins with all of it.
	testkit.Until(t, "all robots have said that they work by shares", func() bool {
		var known manager.RobotsResponse
		h.Operate(http.MethodGet, api.PathAdminRobots, nil, &known)
		able := 0
		for _, r := range known.Robots {
			if r.Shares {
				able++
			}
		}
		return able == robots
	})
	h.Operate(http.MethodPost, api.PathAdminHosts, manager.HostsRequest{Hosts: []string{"http://www.large.example.jp/"}, Parts: robots}, nil)
	var hosts manager.HostsResponse
	testkit.Until(t, "the host is with all robots", func() bool {
		h.Operate(http.MethodGet, api.PathAdminHosts, nil, &hosts)
		return len(hosts.Hosts) == 1 && len(hosts.Hosts[0].Robots) == robots
	})
	testkit.Until(t, "every page is visited", func() bool {
		once, more := large.visits()
		return once+more == pages
	})
	testkit.Throughout(t, "no page is visited again", 5*interval, func() error {
		if once, more := large.visits(); once != pages || more != 0 {
			return fmt.Errorf("%d of %d pages were visited once, %d more often", once, pages, more)
		}
		return nil
	})
	// A busy machine delays single requests, so that the next one comes soon after.
	if requests, took := large.took(); took < time.Duration(requests)*interval*9/10 {
		t.Errorf("%d requests came within %v, with an interval of %v", requests, took, interval)
	}
	if refused := h.quarantined(); len(refused) > 0 {
		t.Errorf("batches %v were refused", refused)
	}
}
