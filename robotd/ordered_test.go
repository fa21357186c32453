package robotd

import (
	"slices"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// TestOrderedVisit shows that a host is visited again between two cycles when an operator orders
// it, with what its pages link to since, and that the manager is told that the order has come.
func TestOrderedVisit(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	site := newSite(t, "127.0.0.83")
	site.page("www.a.test/", "text/html", []byte(`<a href="/old.html">old</a>`))
	site.page("www.a.test/old.html", "text/html", []byte("old"))
	s := newService(t, "http://www.a.test/")
	cfg := testConfig(t, s, map[string]string{"www.a.test": site.addr})
	cfg.Once, cfg.Cycle, cfg.Heartbeat = false, time.Hour, 20*time.Millisecond
	stop := runDaemon(t, cfg)
	defer stop()
	testkit.Until(t, "the first cycle is over", func() bool {
		return site.seen("www.a.test/old.html") == 1
	})
	testkit.Until(t, "the robot has nothing left", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.beats) > 0 && s.beats[len(s.beats)-1].Phase == wire.PhaseIdle
	})

	site.page("www.a.test/", "text/html", []byte(`<a href="/old.html">old</a> <a href="/new.html">new</a>`))
	s.mu.Lock()
	ordered := false
	s.orders = func(hb wire.Heartbeat) wire.Orders {
		o := wire.Orders{List: hb.List}
		ordered = ordered || slices.Contains(hb.Taken, "www.a.test")
		if !ordered {
			o.Visits = []string{"www.a.test", "www.elsewhere.test"}
		}
		return o
	}
	s.mu.Unlock()
	testkit.Until(t, "the host is visited again", func() bool {
		return site.seen("www.a.test/") == 2 && site.seen("www.a.test/old.html") == 2 && site.seen("www.a.test/new.html") == 1
	})
	testkit.Until(t, "the manager knows that the order has come", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return ordered
	})
}
