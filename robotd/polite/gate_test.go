package polite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
)

func address(n int) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 0x0a000000+uint32(n))
	return netip.AddrFrom4(b)
}

// TestManners lets many workers visit several hosts at each address and checks each address: never
// two visits at once, never less than the interval between two.
func TestManners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			addresses, hostsEach, visits, workers = 50, 4, 5, 20
			interval                              = 20 * time.Second
		)
		g, random := NewGate(GateOptions{Interval: interval}), testkit.Random(t)
		for i := range addresses * hostsEach {
			g.Add(address(i%addresses), fmt.Sprintf("host%d", i))
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var (
			mu   sync.Mutex
			busy = map[netip.Addr]bool{}
			end  = map[netip.Addr]time.Time{}
			left = map[string]int{}
			wg   sync.WaitGroup
			done int
		)
		worker := func() {
			for {
				addr, host, err := g.Next(ctx)
				if err != nil {
					return
				}
				mu.Lock()
				if busy[addr] {
					t.Errorf("two visits at once to %s", addr)
				}
				if last, ok := end[addr]; ok && time.Since(last) < interval {
					t.Errorf("%s is visited %v after the last time", addr, time.Since(last))
				}
				busy[addr] = true
				mu.Unlock()
				testkit.Moment(random, 10*time.Second)
				mu.Lock()
				busy[addr] = false
				end[addr] = time.Now()
				left[host]++
				more := left[host] < visits
				if done++; done == addresses*hostsEach*visits {
					cancel()
				}
				mu.Unlock()
				g.Done(addr, host, Outcome{More: more})
			}
		}
		for range workers {
			wg.Go(worker)
		}
		wg.Wait()
		for i := range addresses * hostsEach {
			if n := left[fmt.Sprintf("host%d", i)]; n != visits {
				t.Errorf("host%d was visited %d times, want %d", i, n, visits)
			}
		}
		if g.Len() != 0 {
			t.Errorf("%d hosts are left", g.Len())
		}
	})
}

// script runs f with a gate with an interval of 20 s, and a function that takes the next visit and
// checks its time, in seconds from the start.
func script(t *testing.T, opt GateOptions, f func(g *Gate, next func(host string, second int) netip.Addr)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		opt.Interval = 20 * time.Second
		start := time.Now()
		g := NewGate(opt)
		f(g, func(host string, second int) netip.Addr {
			t.Helper()
			addr, got, err := g.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if at := int(time.Since(start).Seconds()); got != host || at != second {
				t.Fatalf("%s came after %d s, want %s after %d s", got, at, host, second)
			}
			return addr
		})
	})
}

func TestCrawlDelaySlowsTheHostOnly(t *testing.T) {
	script(t, GateOptions{}, func(g *Gate, next func(string, int) netip.Addr) {
		a := address(1)
		g.Add(a, "slow")
		next("slow", 0)
		g.Add(a, "quick")
		g.Done(a, "slow", Outcome{More: true, Delay: time.Minute})
		next("quick", 20)
		g.Done(a, "quick", Outcome{More: true})
		next("quick", 40)
		g.Done(a, "quick", Outcome{})
		next("slow", 60)
	})
}

func TestRetryAfter(t *testing.T) {
	script(t, GateOptions{}, func(g *Gate, next func(string, int) netip.Addr) {
		a := address(1)
		g.Add(a, "h")
		next("h", 0)
		g.Done(a, "h", Outcome{More: true, NotBefore: time.Now().Add(5 * time.Second)})
		next("h", 20) // never under the interval
		g.Done(a, "h", Outcome{More: true, NotBefore: time.Now().Add(100 * time.Second)})
		next("h", 120)
		g.Done(a, "h", Outcome{More: true, Rest: 30 * time.Second})
		next("h", 150)
	})
}

func TestIntervalOutlivesTheHost(t *testing.T) {
	script(t, GateOptions{}, func(g *Gate, next func(string, int) netip.Addr) {
		a := address(1)
		g.Add(a, "h")
		next("h", 0)
		g.Done(a, "h", Outcome{})
		if g.Len() != 0 {
			t.Errorf("%d hosts, want none", g.Len())
		}
		time.Sleep(5 * time.Second)
		g.Add(a, "h")
		next("h", 20)
		g.Done(a, "h", Outcome{})
		time.Sleep(time.Minute)
		g.Add(a, "h")
		next("h", 80)
	})
}

// What an address has shown is known when a host comes back to it after its rest.
func TestPaceOutlivesTheHost(t *testing.T) {
	script(t, GateOptions{Max: time.Minute}, func(g *Gate, next func(string, int) netip.Addr) {
		a, b := address(1), address(2)
		g.Add(a, "h")
		next("h", 0)
		g.Done(a, "h", Outcome{More: true, Trouble: true})
		next("h", 20)
		g.Done(a, "h", Outcome{Trouble: true}) // 40 s from now on
		g.AddAt(b, "other", time.Now().Add(time.Minute))
		next("other", 80)
		g.Add(a, "h")
		next("h", 80)
		if st := g.Done(a, "h", Outcome{Wait: time.Millisecond, Page: true}); st.Interval != 30*time.Second {
			t.Errorf("after two troubles and a good visit the interval is %v, want 30s", st.Interval)
		}
	})
}

func TestOpen(t *testing.T) {
	script(t, GateOptions{}, func(g *Gate, next func(string, int) netip.Addr) {
		a := address(1)
		g.Open(time.Now().Add(time.Hour), time.Time{})
		g.Add(a, "h")
		time.AfterFunc(time.Minute, func() { g.Open(time.Time{}, time.Time{}) })
		if places := g.Survey(); len(places) != 1 || time.Until(places[0].At) != time.Hour {
			t.Errorf("the next runs are %v; want one in an hour", places)
		}
		next("h", 60)
	})
}

func TestHostMovesToItsNewAddress(t *testing.T) {
	script(t, GateOptions{}, func(g *Gate, next func(string, int) netip.Addr) {
		a, b := address(1), address(2)
		g.Add(a, "h")
		next("h", 0)
		g.Add(b, "h") // during its visit: takes effect at its end
		g.Done(a, "h", Outcome{More: true})
		if got := next("h", 0); got != b {
			t.Errorf("visited at %v, want %v", got, b)
		}
		g.Done(b, "h", Outcome{More: true})
		g.Add(a, "h") // while it waits: takes effect at once
		if got := next("h", 20); got != a {
			t.Errorf("visited at %v, want %v", got, a)
		}
		g.Remove("h")
		g.Done(a, "h", Outcome{More: true})
		if g.Len() != 0 {
			t.Errorf("%d hosts, want none", g.Len())
		}
	})
}

func TestGroupCountsAsOne(t *testing.T) {
	first := func(netip.Addr) netip.Addr { return address(1) }
	script(t, GateOptions{Group: first}, func(g *Gate, next func(string, int) netip.Addr) {
		g.Add(address(1), "h1")
		next("h1", 0)
		g.Add(address(2), "h2")
		g.Done(address(1), "h1", Outcome{})
		if got := next("h2", 20); got != address(2) {
			t.Errorf("visited at %v, want its own address", got)
		}
		g.Done(address(2), "h2", Outcome{})
	})
}

func TestNextEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{})
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, _, err := g.Next(ctx); !errors.Is(err, stop) {
					t.Errorf("Next: %v, want %v", err, stop)
				}
			})
		}
		synctest.Wait()
		cancel(stop)
		wg.Wait()
	})
}

func TestDoneWithoutNext(t *testing.T) {
	g := NewGate(GateOptions{})
	g.Add(address(1), "h")
	defer func() {
		if recover() == nil {
			t.Error("Done without Next did not panic")
		}
	}()
	g.Done(address(1), "h", Outcome{})
}

func BenchmarkGate(b *testing.B) {
	for _, n := range []int{1e2, 1e4, 1e6} {
		b.Run(fmt.Sprintf("addresses=%d", n), func(b *testing.B) {
			g := NewGate(GateOptions{})
			for i := range n {
				g.Add(address(i), fmt.Sprintf("host%d.example", i))
			}
			ctx := b.Context()
			for b.Loop() {
				addr, host, err := g.Next(ctx)
				if err != nil {
					b.Fatal(err)
				}
				g.Done(addr, host, Outcome{More: true})
			}
		})
	}
}

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
