package polite

import (
	"fmt"
	"math"
	"math/rand/v2"
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
			p.observe(opt.limits(netip.Addr{}), Outcome{Wait: wait, Page: true, Trouble: trouble})
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
		p.observe(opt.limits(netip.Addr{}), Outcome{Wait: time.Millisecond, Page: true})
		p.observe(opt.limits(netip.Addr{}), Outcome{Wait: time.Hour, Trouble: true})
		p.observe(opt.limits(netip.Addr{}), Outcome{Wait: time.Hour, Trouble: true})
		if got := p.current(opt.limits(netip.Addr{})); got != opt.Interval {
			t.Fatalf("without bounds: %v", got)
		}
	}
}

// server returns the time to the first byte of the n-th page that is visited.
type server func(rng *rand.Rand, n int) time.Duration

const quick, slowPage = 10 * time.Millisecond, 500 * time.Millisecond

// around returns a time up to a quarter away from another.
func around(rng *rand.Rand, t time.Duration) time.Duration {
	return time.Duration(float64(t) * (0.8 + 0.45*rng.Float64()))
}

// mixed has two kinds of pages in no order.
func mixed(slow float64) server {
	return func(rng *rand.Rand, _ int) time.Duration {
		if rng.Float64() < slow {
			return around(rng, slowPage)
		}
		return around(rng, quick)
	}
}

// sections has two kinds of pages, so many of one kind in a row.
func sections(of int) server {
	return func(rng *rand.Rand, n int) time.Duration {
		if n/of%2 == 1 {
			return around(rng, slowPage)
		}
		return around(rng, quick)
	}
}

// A server whose pages differ by up to 50 times, and that is always as fast as it can be, is not
// visited less often for that: a night of six hours has at most 2 % fewer visits than with an
// interval that does not adapt.
func TestHealthyServersLoseNothing(t *testing.T) {
	servers := map[string]server{
		"any time between": func(rng *rand.Rand, _ int) time.Duration {
			return time.Duration(float64(quick) * math.Pow(50, rng.Float64()))
		},
		"static ones first": func(rng *rand.Rand, n int) time.Duration { return sections(300)(rng, min(n, 599)) },
	}
	for _, slow := range []float64{0.02, 0.05, 0.1, 0.2, 0.3, 0.49, 0.51, 0.7, 0.9} {
		servers[fmt.Sprintf("%v slow ones", slow)] = mixed(slow)
	}
	for _, of := range []int{3, 5, 10, 20, 30, 40, 60, 100, 200, 300, 500} {
		servers[fmt.Sprintf("sections of %d", of)] = sections(of)
	}
	opt := &GateOptions{Interval: 20 * time.Second, Max: 2 * time.Minute}
	within := opt.limits(netip.Addr{})
	for name, wait := range servers {
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 1))
			var p pace
			var took, unhurried time.Duration
			for n := 0; took < 6*time.Hour; n++ {
				w := wait(rng, n)
				p.observe(within, Outcome{Wait: w, Page: true})
				took += w + p.current(within)
				unhurried += w + opt.Interval
			}
			if lost := 1 - float64(unhurried)/float64(took); lost > 0.02 {
				t.Errorf("%s, seed %d: %.1f %% of the night is lost", name, seed, 100*lost)
			}
		}
	}
}

// A server that becomes four times slower for all pages has the longer interval within five visits,
// and as long as that is not usual.
func TestSlowServerIsSpared(t *testing.T) {
	opt := &GateOptions{Interval: 20 * time.Second, Max: 2 * time.Minute}
	within := opt.limits(netip.Addr{})
	for _, usual := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second} {
		for _, before := range []int{leastWaits, 50, 2000} {
			for seed := range uint64(20) {
				rng := rand.New(rand.NewPCG(seed, 2))
				var p pace
				for range before {
					p.observe(within, Outcome{Wait: around(rng, usual), Page: true})
				}
				for range 5 {
					p.observe(within, Outcome{Wait: 4 * around(rng, usual), Page: true})
				}
				if got := p.current(within); got <= opt.Interval {
					t.Errorf("%v, after %d visits, seed %d: the interval is %v", usual, before, seed, got)
				}
				for range 50 {
					p.observe(within, Outcome{Wait: around(rng, usual), Page: true})
				}
				if got := p.current(within); got != opt.Interval {
					t.Errorf("%v, after %d visits, seed %d: the interval stays %v", usual, before, seed, got)
				}
			}
		}
	}
}

// Neither a robots.txt nor pictures, which come at once, make pages seem late.
func TestOnlyPagesShowTheSpeed(t *testing.T) {
	opt := &GateOptions{Interval: 20 * time.Second, Max: 2 * time.Minute}
	within := opt.limits(netip.Addr{})
	var p pace
	for range 100 {
		p.observe(within, Outcome{Wait: time.Millisecond})
		p.observe(within, Outcome{Wait: time.Millisecond})
		p.observe(within, Outcome{Wait: 200 * time.Millisecond, Page: true})
		if got := p.current(within); got != opt.Interval {
			t.Fatalf("the interval is %v", got)
		}
	}
}
