package robotd

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

func (s *service) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// heard waits for n more heartbeats.
func (s *service) heard(t *testing.T, n int) {
	t.Helper()
	beats := func() (n int) {
		s.locked(func() { n = len(s.beats) })
		return n
	}
	enough := beats() + n
	testkit.Until(t, "heartbeats", func() bool { return beats() >= enough })
}

// A robot that has nothing left says so, and takes the hosts that it is then given into
// the same cycle.
func TestIdleRobotTakesMoreIntoTheCycle(t *testing.T) {
	one, two := newSite(t, "127.0.0.41"), newSite(t, "127.0.0.42")
	one.tree("www.a.test", 5)
	two.tree("www.b.test", 7)
	s := newService(t, "http://www.a.test/")
	s.orders = func(hb wire.Heartbeat) wire.Orders {
		if hb.Phase == wire.PhaseIdle && len(s.seeds) == 1 {
			if p := hb.Hosts["www.a.test"]; p.State != wire.HostDone || p.Pages != 5 || p.Bytes == 0 || !hb.All {
				s.t.Errorf("idle, and said of www.a.test: %+v, all %v", p, hb.All)
			}
			s.generation++
			s.seeds = []string{"http://www.a.test/", "http://www.b.test/"}
			return wire.Orders{Directives: []wire.Directive{wire.DirectiveRebalance}}
		}
		return wire.Orders{}
	}
	cfg := testConfig(t, s, map[string]string{"www.a.test": one.addr, "www.b.test": two.addr})
	if err := Run(t.Context(), cfg, testLog(t)); err != nil {
		t.Fatal(err)
	}
	if a, b := len(s.cells(0, "www.a.test")), len(s.cells(0, "www.b.test")); a != 5 || b != 7 {
		t.Errorf("one cycle's batch has %d pages of www.a.test and %d of www.b.test, want 5 and 7", a, b)
	}
	if n := one.seen("www.a.test/"); n != 1 {
		t.Errorf("the first host was visited %d times", n)
	}
}

// Orders of a heartbeat are carried out while the robot crawls: a new list within a
// heartbeat, a pause that lets the robot rest, and its end. A manager that is away
// changes nothing.
func TestHeartbeatOrdersWhileCrawling(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	one, two := newSite(t, "127.0.0.43"), newSite(t, "127.0.0.44")
	one.tree("www.a.test", 4000)
	two.tree("www.b.test", 3)
	s := newService(t, "http://www.a.test/")
	cfg := testConfig(t, s, map[string]string{"www.a.test": one.addr, "www.b.test": two.addr})
	cfg.Once, cfg.Heartbeat, cfg.Interval = false, 20*time.Millisecond, 5*time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg, testLog(t)) }()

	testkit.Until(t, "visit", func() bool { return one.seen("www.a.test/1.html") > 0 })
	s.locked(func() { s.away = true })
	before := one.visits()
	testkit.Until(t, "visit while the manager is away", func() bool { return one.visits() > before+10 })
	s.locked(func() { s.away = false })
	s.assign("http://www.a.test/", "http://www.b.test/")
	s.locked(func() {
		s.orders = func(hb wire.Heartbeat) wire.Orders {
			if tag := fmt.Sprintf(`"g%d"`, s.generation); hb.List != tag {
				return wire.Orders{List: tag, Directives: []wire.Directive{wire.DirectiveRebalance}}
			}
			return wire.Orders{}
		}
	})
	testkit.Until(t, "visit of the host that was added", func() bool { return two.seen("www.b.test/2.html") > 0 })

	s.locked(func() {
		s.orders = func(hb wire.Heartbeat) wire.Orders {
			if !hb.Held {
				return wire.Orders{Directives: []wire.Directive{wire.DirectivePause}}
			}
			return wire.Orders{}
		}
	})
	last := func() (hb wire.Heartbeat) {
		s.locked(func() { hb = s.beats[len(s.beats)-1] })
		return hb
	}
	testkit.Until(t, "pause", func() bool { return last().Phase == wire.PhasePaused })
	testkit.Until(t, "upload of what there was", func() bool {
		n := 0
		s.locked(func() { n = len(s.batches) })
		return n > 0
	})
	before = one.visits()
	s.heard(t, 5)                                // in that time it could have made twenty visits
	if after := one.visits(); after > before+1 { // one may have been in hand
		t.Errorf("%d visits while paused", after-before)
	}
	s.locked(func() {
		s.orders = func(hb wire.Heartbeat) wire.Orders {
			if hb.Held {
				return wire.Orders{Directives: []wire.Directive{wire.DirectiveResume, "from-a-newer-manager"}}
			}
			return wire.Orders{}
		}
	})
	testkit.Until(t, "visit after the pause", func() bool { return one.visits() > before+10 })
	if hb := last(); hb.Left == 0 {
		t.Errorf("the backlog is told as %d in phase %s", hb.Left, hb.Phase)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A robot measures how far another's host is: a few files, within robots.txt, nothing of it in a
// batch.
func TestDistanceIsMeasured(t *testing.T) {
	one, two := newSite(t, "127.0.0.45"), newSite(t, "127.0.0.46")
	one.tree("www.a.test", 4000)
	two.tree("www.far.test", 60)
	two.robots = "User-agent: *\nDisallow: /3.html\n"
	s := newService(t, "http://www.a.test/")
	s.orders = func(hb wire.Heartbeat) wire.Orders {
		if hb.Phase == wire.PhaseCollecting && len(s.beats) < 100 {
			return wire.Orders{Probes: []wire.ProbeAsk{
				{URL: "http://www.far.test/", Files: 6, ForMS: 60_000, Address: "127.0.0.46"}, {URL: "http://nowhere.invalid/", Files: 6},
				{URL: "http://moved.test/", Files: 6, Address: "127.0.0.48"},
			}}
		}
		return wire.Orders{}
	}
	cfg := testConfig(t, s, map[string]string{"www.a.test": one.addr, "www.far.test": two.addr, "nowhere.invalid": "127.0.0.47:1", "moved.test": two.addr})
	cfg.Once, cfg.Heartbeat, cfg.Interval = false, 20*time.Millisecond, 5*time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg, testLog(t)) }()
	var far, nowhere, moved wire.ProbeResult
	testkit.Until(t, "distance", func() bool {
		s.locked(func() {
			for _, hb := range s.beats {
				if r, ok := hb.Probes["www.far.test"]; ok {
					far = r
				}
				if r, ok := hb.Probes["nowhere.invalid"]; ok { // maybe in a later one
					nowhere = r
				}
				if r, ok := hb.Probes["moved.test"]; ok {
					moved = r
				}
			}
		})
		return nowhere.Failed != "" && moved.Failed != "" && far != wire.ProbeResult{}
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if far.Files != 6 || far.Bytes < 6*100 || far.Failed != "" {
		t.Errorf("measured %+v", far)
	}
	if moved.Files != 0 || two.seen("moved.test/") != 0 {
		t.Errorf("a host that is elsewhere was visited: %+v", moved)
	}
	if two.seen("www.far.test/3.html") != 0 || two.seen("www.far.test/2.html") == 0 {
		t.Error("robots.txt was not obeyed")
	}
	s.locked(func() {
		for _, b := range s.batches {
			if len(b.cells["www.far.test"]) > 0 {
				t.Error("what was fetched to measure a distance is in a batch")
			}
		}
	})
}

// A heartbeat tells only what has changed, all after an answer was lost, and never more than fits.
func TestHeartbeatTellsChanges(t *testing.T) {
	p := newProgress()
	p.goesOn("a", wire.HostProgress{State: wire.HostBegun, Pages: 1}, "")
	tell := func(arrives bool) []string {
		var hb wire.Heartbeat
		told := p.fill(&hb)
		var names []string
		for name, s := range hb.Hosts {
			names = append(names, name+" "+string(s.State))
		}
		if arrives {
			told()
		}
		slices.Sort(names)
		return names
	}
	for i, step := range []struct {
		change  func()
		arrives bool
		want    []string
	}{
		{func() {}, false, []string{"a begun"}},
		{func() {}, true, []string{"a begun"}},
		{func() { p.goesOn("a", wire.HostProgress{State: wire.HostBegun, Pages: 9}, "") }, true, nil},
		{func() { p.goesOn("b", wire.HostProgress{State: wire.HostBegun}, "") }, false, []string{"b begun"}},
		{func() { p.goesOn("a", wire.HostProgress{State: wire.HostDone}, "") }, true, []string{"a done", "b begun"}},
		{p.tellAll, true, []string{"a done", "b begun"}},
		{func() { p.note(7, nil) }, true, nil}, // another cycle
	} {
		step.change()
		if got := tell(step.arrives); !slices.Equal(got, step.want) {
			t.Errorf("step %d tells %v, want %v", i, got, step.want)
		}
	}
	for i := range wire.MaxHeartbeatHosts + 5 {
		p.goesOn(fmt.Sprint(i), wire.HostProgress{State: wire.HostDone}, "")
	}
	var first, second wire.Heartbeat
	if more := p.fill(&first)(); !more || len(first.Hosts) != wire.MaxHeartbeatHosts {
		t.Errorf("%d hosts told, more %v", len(first.Hosts), more)
	}
	if more := p.fill(&second)(); more || len(second.Hosts) != 5 {
		t.Errorf("%d hosts told then, more %v", len(second.Hosts), more)
	}
}

// A heartbeat tells once that a host gives no answer, and once that it gives one again.
func TestHeartbeatTellsWhoGivesNoAnswer(t *testing.T) {
	p := newProgress()
	for i, step := range []struct {
		change func()
		want   string
	}{
		{func() { p.goesOn("a", wire.HostProgress{}, "") }, "map[]"},
		{func() { p.goesOn("a", wire.HostProgress{}, "dns"); p.goesOn("b", wire.HostProgress{}, "timeout") }, "map[a:dns b:timeout]"},
		{func() { p.goesOn("a", wire.HostProgress{}, "dns") }, "map[]"},
		{p.tellAll, "map[a:dns b:timeout]"},
		{func() { p.goesOn("a", wire.HostProgress{}, "connect"); p.goesOn("b", wire.HostProgress{}, "") }, "map[a:connect b:]"},
		{p.tellAll, "map[a:connect]"},
		{func() { p.forget([]string{"a"}) }, "map[]"},
		{func() { p.goesOn("b", wire.HostProgress{}, "dns"); p.note(7, nil) }, "map[]"}, // another cycle
	} {
		step.change()
		var hb wire.Heartbeat
		told := p.fill(&hb)
		if got := fmt.Sprint(hb.Unanswered); got != step.want {
			t.Errorf("step %d tells %s, want %s", i, got, step.want)
		}
		told()
	}
}

// How long ago a last visit was counts from the heartbeat, however long after the crawl it is sent.
func TestHeartbeatTellsHowLongAgoVisitsWere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProgress()
		p.goesOn("a", wire.HostProgress{State: wire.HostDone, Status: 200, AgoMS: 1000}, "")
		p.goesOn("b", wire.HostProgress{State: wire.HostDone}, "")
		for range 2 {
			time.Sleep(time.Hour)
			p.tellAll()
		}
		var hb wire.Heartbeat
		p.fill(&hb)
		if a, b := hb.Hosts["a"].AgoMS, hb.Hosts["b"].AgoMS; a != 7_201_000 || b != 0 {
			t.Errorf("a was visited %d ms ago and b %d, want 7201000 and 0: not visited", a, b)
		}
	})
}
