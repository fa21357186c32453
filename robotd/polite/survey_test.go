package polite

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// The survey gives the time at which Next returns each host.
func TestSurvey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{Interval: 20 * time.Second})
		for i := range 12 {
			g.AddAt(netip.AddrFrom4([4]byte{192, 0, 2, byte(i % 4)}), fmt.Sprintf("h%d", i), time.Now().Add(time.Duration(i)*7*time.Second))
		}
		g.Open(time.Now().Add(time.Minute), time.Time{})
		want := make(map[string]time.Time)
		for _, p := range g.Survey() {
			want[p.Host] = p.At
		}
		for range 12 {
			addr, host, err := g.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !want[host].Equal(time.Now()) {
				t.Errorf("%s is handed out at %v, the survey said %v", host, time.Now(), want[host])
			}
			for _, p := range g.Survey() {
				if p.Host == host && (!p.Out || !p.At.IsZero()) {
					t.Errorf("a host whose run is out: %+v", p)
				}
			}
			g.Done(addr, host, Outcome{})
		}
	})
}

// BenchmarkSurvey measures a survey of a robot with many hosts.
func BenchmarkSurvey(b *testing.B) {
	g := NewGate(GateOptions{Interval: 20 * time.Second})
	for i := range 10_000 {
		g.Add(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), fmt.Sprintf("h%d", i))
	}
	for b.Loop() {
		g.Survey()
	}
}
