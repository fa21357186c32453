package polite

import (
	"net/netip"
	"testing"
	"time"
)

// The interval decreases to the operator's minimum while answers are as fast as usual, increases
// when they slow down or fail repeatedly, and recovers.
func TestPaceFollowsTheServer(t *testing.T) {
	opt := &GateOptions{Interval: 20 * time.Second, Min: 5 * time.Second, Max: 2 * time.Minute}
	var p pace
	visits := func(n int, wait time.Duration, trouble bool) time.Duration {
		for range n {
			p.observe(opt.limits(netip.Addr{}), wait, trouble)
		}
		return p.current(opt.limits(netip.Addr{}))
	}
	if got := p.current(opt.limits(netip.Addr{})); got != opt.Interval {
		t.Errorf("before the first visit: %v", got)
	}
	if got := visits(20, 100*time.Millisecond, false); got >= opt.Interval || got < opt.Min {
		t.Errorf("after 20 quick answers: %v", got)
	}
	if got := visits(200, 100*time.Millisecond, false); got != opt.Min {
		t.Errorf("after 220 quick answers: %v, want the minimum, %v", got, opt.Min)
	}
	if got := visits(10, 2*time.Second, false); got <= opt.Min {
		t.Errorf("after 10 slow answers: %v", got)
	}
	if got := visits(300, 100*time.Millisecond, false); got != opt.Min {
		t.Errorf("after fast answers again: %v", got)
	}
	if got := visits(1, 0, true); got != opt.Min {
		t.Errorf("after a single trouble: %v, want no change", got)
	}
	if got := visits(10, 0, true); got != opt.Max {
		t.Errorf("after a streak of troubles: %v, want %v", got, opt.Max)
	}
	if got := visits(7, 100*time.Millisecond, false); got != opt.Interval {
		t.Errorf("after seven good answers: %v, want %v", got, opt.Interval)
	}
}

func TestPaceKeepsToTheInterval(t *testing.T) {
	opt := &GateOptions{Interval: 20 * time.Second}
	var p pace
	for range 100 {
		p.observe(opt.limits(netip.Addr{}), time.Millisecond, false)
		p.observe(opt.limits(netip.Addr{}), time.Hour, true)
		p.observe(opt.limits(netip.Addr{}), time.Hour, true)
		if got := p.current(opt.limits(netip.Addr{})); got != opt.Interval {
			t.Fatalf("without bounds: %v", got)
		}
	}
}
