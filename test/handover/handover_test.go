package handover

import (
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// Hosts that were begun go from robot to robot: because another joins, and because one leaves. No page
// is lost, and none is visited twice but those in hand when a robot is told to end.
func TestBegunHostsGoOnAtTheNextRobot(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const hosts, pages, interval = 4, 25, 60 * time.Millisecond
	w := newWeb(t, "127.0.78.1", hosts, hosts, pages)
	f := newFleet(t, w, time.Minute, interval, nil)
	f.cycle = 24 * time.Hour
	f.add(w.hosts...)
	first := f.join("r1")
	w.visited(5 * hosts)
	second := f.join("r2") // it gets half of the hosts
	testkit.Until(t, "the second robot has hosts", func() bool { return f.known("r2").Hosts == hosts/2 && f.known("r1").Waits == 0 })
	w.visited(5 * hosts)
	if s := w.stats(); s.Pages != s.Unique {
		t.Errorf("after two hosts have moved, %d pages were given for %d pages", s.Pages, s.Unique)
	}
	f.leave(first)
	testkit.Until(t, "all pages", func() bool { return w.stats().Unique == hosts*pages })
	f.leave(second)
	s := w.stats()
	if s.Pages > s.Unique+hosts/2 {
		t.Errorf("%d pages were given for %d pages", s.Pages, s.Unique)
	}
	if s.ByIP.MinGap < interval.Seconds() || s.ByIP.MaxConcurrency > 1 {
		t.Errorf("two requests at one address came %.3f s apart, and %d at once", s.ByIP.MinGap, s.ByIP.MaxConcurrency)
	}
}
