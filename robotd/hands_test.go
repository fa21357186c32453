package robotd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/robotd/config"
	"sheaf/robotd/control"
)

// startHand runs the test's own binary as a hand that the head of cfg has invited.
func startHand(t testing.TB, cfg config.Config, name string) *testkit.Process {
	t.Helper()
	text, err := InviteHand(cfg, name)
	testkit.Must(t, err)
	pass := filepath.Join(t.TempDir(), name+".pass")
	testkit.Must(t, os.WriteFile(pass, text, 0o600))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), handEnv+"="+cfg.Hands.Listen, passEnv+"="+pass)
	return testkit.Start(t, "", cmd)
}

// A head has three hands, and one of them is killed while it has turns. Everything is collected,
// each page once, and no address is visited before its interval is over. With SHEAF_TEST_FULL=1,
// another hand stands still for longer than its lease, and the head is killed too.
func TestHands(t *testing.T) {
	testkit.Slow(t)
	t.Parallel() // it mostly waits
	hosts, pages := 24, testkit.Size(10, 40)
	web := newSynthweb(t, "-hosts", fmt.Sprint(hosts), "-pages", fmt.Sprint(pages), "-base", "127.61.0.1", "-latency", "100ms")
	service := newService(t, web.seeds...)
	cfg := testConfig(t, service, nil)
	cfg.Interval = 400 * time.Millisecond
	cfg.Hands.Listen, cfg.Hands.Lease = testkit.Addresses(t, 1)[0], 2*time.Second
	var all []*testkit.Process
	for n := range 3 {
		all = append(all, startHand(t, cfg, fmt.Sprint("hand", n)))
	}
	head := startRobot(t, cfg)
	monitor := control.NewMonitor(cfg.DataDir)
	var s control.Status
	testkit.Until(t, "turns at every hand", func() bool {
		var err error
		s, _, err = monitor.Status(context.Background(), 0)
		if err != nil || len(s.Hands) < len(all) {
			return false
		}
		for _, h := range s.Hands {
			if h.Pages == 0 || h.Name == "hand1" && h.Turns == 0 {
				return false
			}
		}
		return true
	})
	all[1].Kill()
	hands := func(n int) {
		testkit.Until(t, fmt.Sprint(n, " hands"), func() bool {
			s, _, err := monitor.Status(context.Background(), 0)
			return err == nil && len(s.Hands) == n
		})
	}
	hands(2)
	kills := 1
	if testkit.Full() {
		testkit.Must(t, all[0].Process.Signal(syscall.SIGSTOP))
		hands(1)
		testkit.Must(t, all[0].Process.Signal(syscall.SIGCONT))
		hands(2)
		testkit.Until(t, "a part of the pages", func() bool { return web.stats().Pages > int64(hosts*pages/2) })
		head.Kill()
		head = startRobot(t, cfg)
		kills += 2
	}
	if err := head.Ended(); err != nil {
		t.Fatal(err)
	}
	web.stop()
	st := web.last
	if st.Unique != st.Total || st.Pages > st.Unique+int64(kills*hosts) {
		t.Errorf("%d pages of %d were fetched, %d in all", st.Unique, st.Total, st.Pages)
	}
	if st.ByIP.MaxConcurrency != 1 || st.ByIP.MinGap < cfg.Interval.Seconds() {
		t.Errorf("%d visits to an address at once, %v s between two; want 1 and %v", st.ByIP.MaxConcurrency, st.ByIP.MinGap, cfg.Interval)
	}
	archived := make(map[string]int)
	for i, b := range service.all() {
		for host := range b.cells {
			for url := range service.cells(i, host) {
				archived[url]++
			}
		}
	}
	for url, n := range archived {
		if n != 1 {
			t.Errorf("%s is in the batches %d times", url, n)
		}
	}
	if len(archived) < hosts*pages {
		t.Errorf("%d pages are in the batches, want %d", len(archived), hosts*pages)
	}
	t.Logf("%d pages, %d fetched again, shortest gap %.0f ms", st.Unique, st.Pages-st.Unique, 1000*st.ByIP.MinGap)
}

// Hands keep the manners of TestRuns at a web full of troubles, though one leaves in the
// middle and another comes.
func TestMannersOfHands(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const addrs, hosts, pages = 7, 28, 14
	w := newWeb(t, "127.62.0.1", addrs, hosts, pages)
	w.troubles()
	cfg := testConfig(t, newService(t, w.seeds()...), nil)
	cfg.Interval, cfg.Run.Pages = 20*time.Millisecond, 5
	cfg.Network.Resolver = w.names.LocalAddr().String()
	cfg.Hands.Listen = testkit.Addresses(t, 1)[0]
	var serving sync.WaitGroup
	defer serving.Wait()
	hand := func(name string) (leave func()) {
		pass, err := InviteHand(cfg, name)
		testkit.Must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		serving.Go(func() {
			own := DefaultConfig()
			own.Network.AllowPrivate = true
			if err := Hand(ctx, own, cfg.Hands.Listen, pass, 10, testLog(t)); err != nil {
				t.Error(err)
			}
		})
		return cancel
	}
	monitor := control.NewMonitor(cfg.DataDir)
	_, err := monitor.SetPaused(t.Context(), true)
	testkit.Must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- Run(t.Context(), cfg, testLog(t)) }()
	testkit.Until(t, "the robot", func() bool {
		_, running, err := monitor.Status(t.Context(), 0)
		return err == nil && running
	})
	first := hand("first")
	defer hand("second")()
	testkit.Until(t, "two hands", func() bool {
		s, _, err := monitor.Status(t.Context(), 0)
		return err == nil && len(s.Hands) == 2
	})
	_, err = monitor.SetPaused(t.Context(), false)
	testkit.Must(t, err)
	testkit.Until(t, "a part of the visits", func() bool { return w.total() > hosts*pages/4 })
	first()
	defer hand("third")()
	if err := testkit.Receive(t, "the end", ended); err != nil {
		t.Fatal(err)
	}
	if longest := w.check(cfg.Interval); longest != 5 {
		t.Errorf("the longest run had %d pages, want 5", longest)
	}
	w.checkForbidden()
	for host := range w.home {
		if w.fetched(host, fmt.Sprintf("/%d.html", pages-1)) == 0 {
			t.Errorf("%s was not fetched whole", host)
		}
	}
}

// BenchmarkHands crawls as BenchmarkCrawl does, with hands on the same processors. It reports what
// the robot itself needs of them, and all together.
//
//	go test ./robotd -run - -bench Hands -benchtime 1x
func BenchmarkHands(b *testing.B) {
	for _, n := range []int{0, 1, 2, 4} {
		b.Run(fmt.Sprintf("hands=%d", n), func(b *testing.B) {
			var sum crawled
			all := 0.0
			for b.Loop() {
				web := newBenchWeb(b)
				cfg := testConfig(b, newService(b, web.seeds...), nil)
				cfg.Interval, cfg.Batch.Level, cfg.Hands.Listen = 0, 6, testkit.Addresses(b, 1)[0]
				var hands []*testkit.Process
				for i := range n {
					hands = append(hands, startHand(b, cfg, fmt.Sprint("hand", i)))
				}
				head := startRobot(b, cfg)
				peak := peakMemory(head.Process.Pid)
				testkit.Must(b, head.Ended())
				web.stop()
				sum.add(web.last, head.ProcessState, <-peak)
				for _, h := range hands {
					testkit.Must(b, h.Stop())
					all += (h.ProcessState.UserTime() + h.ProcessState.SystemTime()).Seconds()
				}
			}
			sum.report(b)
			b.ReportMetric((all+sum.cpu)/sum.pages*1000, "cpu-s/1000pages-in-all")
		})
	}
}
