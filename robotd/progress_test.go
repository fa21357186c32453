package robotd

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/wire"
)

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
