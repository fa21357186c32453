package handover

import (
	"net/http"
	"testing"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/manager"
)

// Hosts that were begun go from robot to robot: because another joins, and because one leaves. No
// page is lost, and none is visited twice but those in hand when a robot is told to end.
func TestBegunHostsGoOnAtTheNextRobot(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const hosts, pages, interval = 4, 60, 60 * time.Millisecond
	w := newWeb(t, "127.0.78.1", hosts, hosts, pages)
	f := newFleet(t, w, time.Minute, interval, nil)
	f.cycle = 24 * time.Hour
	f.add(w.hosts...)
	first := f.join("r1")
	w.visited(5 * hosts)
	second := f.join("r2") // it gets half of the hosts
	testkit.Until(t, "the second robot has hosts", func() bool { return f.known("r2").Hosts == hosts/2 && f.known("r1").Waits == 0 })
	so := w.stats().Unique
	testkit.Until(t, "some pages more", func() bool { return w.stats().Unique >= min(so+5*hosts, hosts*pages) })
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

// A robot with ten large hosts and another with ten small ones, each visiting two hosts at once:
// the night ends much sooner if hosts that were begun move to the robot that has nothing left.
func TestLevellingWithinTheNight(t *testing.T) {
	testkit.Long(t) // a minute and a half
	without := night(t, "127.0.79.1", "127.0.80.1", false)
	with := night(t, "127.0.81.1", "127.0.82.1", true)
	t.Logf("the night takes %v, and %v with levelling: %.2f of it", without.Round(time.Second), with.Round(time.Second), with.Seconds()/without.Seconds())
	if with > without*85/100 {
		t.Errorf("with levelling the night takes %v, without %v", with, without)
	}
}

// night returns how long the two robots take for all pages.
func night(t *testing.T, baseLarge, baseSmall string, levels bool) time.Duration {
	const hosts, pages, interval = 10, 50, 150 * time.Millisecond
	large := newWeb(t, baseLarge, hosts, hosts, pages, "-latency", "200ms")
	small := newWeb(t, baseSmall, hosts, hosts, 4)
	all := &web{t: t, ctl: large.ctl, at: map[string][]string{}}
	for _, w := range []*web{large, small} {
		for host, at := range w.at {
			all.at[host] = at
		}
	}
	f := newFleet(t, all, time.Minute, interval, map[string]any{"balance.during": levels})
	f.cycle, f.width = 24*time.Hour, 2
	f.join("r1")
	f.join("r2")
	both := func() bool { return f.known("r1").Subscribed && f.known("r2").Subscribed }
	testkit.Until(t, "both robots take part", both)
	began := time.Now()
	// Hosts of one address go to one robot. When they are at addresses of their own, they stay
	// there.
	for _, w := range []*web{large, small} {
		first := w.at[w.hosts[0]]
		req := manager.HostsRequest{Addresses: map[string][]string{}}
		for _, h := range w.hosts {
			req.Hosts, req.Addresses[h] = append(req.Hosts, "http://"+h+"/"), first
		}
		f.Operate(http.MethodPost, api.PathAdminHosts, req, nil)
		f.add(w.hosts...)
	}
	testkit.Until(t, "all pages", func() bool { return large.stats().Unique == hosts*pages && small.stats().Unique == 4*hosts })
	took := time.Since(began)
	for _, w := range []*web{large, small} {
		if s := w.stats(); s.ByIP.MinGap < interval.Seconds() || s.ByIP.MaxConcurrency > 1 || s.Pages != s.Unique {
			t.Errorf("levelling %t: gaps of %.3f s, %d at once, %d pages given for %d", levels, s.ByIP.MinGap, s.ByIP.MaxConcurrency, s.Pages, s.Unique)
		}
	}
	return took
}
