package polite

import (
	"cmp"
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// At an address the longest interval of its hosts holds.
func TestIntervalsOfAnAddress(t *testing.T) {
	const usual, short, long = 20 * time.Second, 5 * time.Second, time.Minute
	one, two := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	i := NewAddresses(usual, 0, nil)
	set := func(addr netip.Addr, host string, interval time.Duration) {
		i.Set(addr, host, HostTerms{Interval: interval})
	}
	expect := func(what string, addr netip.Addr, want time.Duration) {
		t.Helper()
		if got, _ := i.Interval(addr); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	expect("no host", one, usual)
	set(one, "a.example.jp", short)
	expect("a host whose owner allows a short one", one, short)
	set(one, "b.example.jp", 0)
	expect("beside one for which none was set", one, usual)
	set(one, "c.example.jp", long)
	expect("beside one that asks for a long one", one, long)
	set(two, "c.example.jp", long)
	expect("after that has moved", one, usual)
	expect("where it has moved to", two, long)
	i.Remove("b.example.jp")
	expect("after the one without is gone", one, short)
	set(one, "a.example.jp", 0)
	expect("after the owner has changed his mind", one, usual)
}

// The gate keeps an interval that was set, from the first visit after it was set. It adapts to
// trouble as usual.
func TestGateKeepsSetIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const usual, short, long = 20 * time.Second, 5 * time.Second, time.Minute
		addr := netip.MustParseAddr("192.0.2.1")
		i := NewAddresses(usual, usual, nil)
		g := NewGate(GateOptions{Interval: usual, Max: 2 * time.Minute, Addresses: i})
		g.Add(addr, "a.example.jp")
		gap := func(trouble bool) time.Duration {
			t.Helper()
			a, host, err := g.Next(context.Background())
			testkit.Must(t, err)
			ended := time.Now()
			g.Done(a, host, Outcome{More: true, Wait: time.Millisecond, Trouble: trouble})
			_, host, err = g.Next(context.Background())
			testkit.Must(t, err)
			took := time.Since(ended)
			g.Done(a, host, Outcome{More: true, Wait: time.Millisecond})
			return took
		}
		for _, want := range []time.Duration{0, short, long, short, 0} {
			i.Set(addr, "a.example.jp", HostTerms{Interval: want})
			for range 12 { // a shorter one is reached in steps
				gap(false)
			}
			if got := gap(false); got != cmp.Or(want, usual) {
				t.Errorf("set to %v: %v between two visits", want, got)
			}
		}
		i.Set(addr, "a.example.jp", HostTerms{Interval: short})
		for range 12 {
			gap(false)
		}
		for range 4 {
			a, host, err := g.Next(context.Background())
			testkit.Must(t, err)
			g.Done(a, host, Outcome{More: true, Trouble: true})
		}
		if got := gap(true); got <= short {
			t.Errorf("a server in trouble is visited every %v", got)
		}
	})
}

// Where an owner allows it, the interval gets shorter while the server stays quick, and longer
// again when it fails. Elsewhere an interval that was set is never shortened, whatever the robot's
// own limit is.
func TestGateShortensWhereAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const usual, set, least = 20 * time.Second, 10 * time.Second, 2 * time.Second
		allowed, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
		i := NewAddresses(usual, time.Second, nil)
		i.Set(allowed, "a.example.jp", HostTerms{Interval: set, Shortest: least})
		i.Set(other, "b.example.jp", HostTerms{Interval: set})
		for addr, want := range map[netip.Addr]time.Duration{allowed: least, other: set} {
			g := NewGate(GateOptions{Interval: usual, Min: time.Second, Max: time.Minute, Addresses: i})
			g.Add(addr, "host")
			visit := func(trouble bool) time.Duration {
				t.Helper()
				_, host, err := g.Next(context.Background())
				testkit.Must(t, err)
				return g.Done(addr, host, Outcome{More: true, Wait: 10 * time.Millisecond, Trouble: trouble}).Interval
			}
			if first := visit(false); first != set {
				t.Errorf("%v: %v after the first visit, want %v", addr, first, set)
			}
			var after time.Duration
			for range 200 {
				after = visit(false)
			}
			if after != want {
				t.Errorf("%v: %v after many quick answers, want %v", addr, after, want)
			}
			visit(true)
			if slower := visit(true); slower <= want {
				t.Errorf("%v: %v after trouble, want more than %v", addr, slower, want)
			}
		}
	})
}

// Robots that come as soon as they may never come within an interval of each other, and each
// comes once in so many intervals as there are robots, though one's clock is wrong.
func TestRobotsTakeTurns(t *testing.T) {
	const robots, interval = 3, 20 * time.Second
	addr := netip.MustParseAddr("192.0.2.1")
	var all []*Addresses
	for part := range robots {
		ahead := time.Duration(part) * 7 * time.Second
		r := NewAddresses(20*time.Second, 0, func() time.Duration { return ahead })
		r.Set(addr, "www.example.jp", HostTerms{Share: wire.Share{Part: part, Of: robots}})
		all = append(all, r)
	}
	next := make([]time.Time, robots)
	visits := make([]int, robots)
	var last time.Time
	start := time.Date(2026, 11, 21, 2, 0, 0, 123, time.UTC)
	for now := start; now.Sub(start) < time.Hour; now = now.Add(100 * time.Millisecond) {
		for part, r := range all {
			own := now.Add(r.offset())
			if own.Before(next[part]) || r.Allow(addr, own).After(own) {
				continue
			}
			if gap := now.Sub(last); gap < interval {
				t.Fatalf("robot %d comes %v after another", part, gap)
			}
			last, next[part] = now, own.Add(interval)
			visits[part]++
		}
	}
	for part, n := range visits {
		if n < 50 || n > 60 { // an hour has 160 slots
			t.Errorf("robot %d came %d times in an hour", part, n)
		}
	}
}

func TestTurnsOfAHostAreForgotten(t *testing.T) {
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	now := time.Date(2026, 11, 21, 2, 0, 9, 0, time.UTC)
	r := NewAddresses(20*time.Second, 0, func() time.Duration { return 0 })
	terms := HostTerms{Share: wire.Share{Part: 1, Of: 2}}
	free := func(addr netip.Addr) bool { return !r.Allow(addr, now).After(now) }
	if !free(a) {
		t.Error("an address that is one robot's has to wait")
	}
	r.Set(a, "www.example.jp", terms)
	if free(a) || !free(b) {
		t.Error("in the middle of a slot a visit begins, or another address waits too")
	}
	r.Set(b, "www.example.jp", terms)
	if !free(a) || free(b) {
		t.Error("the turns did not follow the host to its new address")
	}
	r.Set(b, "www.example.jp", HostTerms{})
	if !free(b) {
		t.Error("a host that is one robot's again still has turns")
	}
	r.Set(a, "www.example.jp", terms)
	r.Remove("www.example.jp")
	if !free(a) {
		t.Error("a host that was dropped still has turns")
	}
}
