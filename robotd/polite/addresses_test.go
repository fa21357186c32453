package polite

import (
	"cmp"
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
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
