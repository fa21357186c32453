package polite

import (
	"net/netip"
	"testing"
	"time"

	"sheaf/internal/wire"
)

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
