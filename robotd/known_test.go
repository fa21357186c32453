package robotd

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/robotd/config"
	"sheaf/robotd/frontier"
)

// BenchmarkKnown starts the whole robot, as a process of its own, on a frontier of
// SHEAF_BENCH_URLS known URLs (100,000; the goal is 10,000,000) of SHEAF_BENCH_HOSTS hosts
// (100), and lets it visit a thousand. It reports the peak of its memory and the time to the
// first visit.
//
//	SHEAF_BENCH_URLS=10000000 go test ./robotd -run - -bench Known -benchtime 1x -timeout 30m
func BenchmarkKnown(b *testing.B) {
	const visits = 1000
	size := func(name string, usual int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return usual
	}
	hosts, urls := size("SHEAF_BENCH_HOSTS", 100), size("SHEAF_BENCH_URLS", 100_000)
	for b.Loop() {
		w := newMortalWeb(b, hosts, 1)
		var seeds []string
		for i := range hosts {
			seeds = append(seeds, "http://"+w.host(i)+"/")
		}
		cfg := testConfig(b, newService(b, seeds...), w.addrs)
		cfg.Page.MaxPerHost = urls
		fillFrontier(b, &cfg, w, urls)
		began := time.Now()
		robot := startRobot(b, cfg)
		for w.fetched()+w.lost() == 0 && time.Since(began) < 20*time.Minute {
			time.Sleep(10 * time.Millisecond)
		}
		b.ReportMetric(time.Since(began).Seconds(), "s/start")
		for w.lost() < visits && time.Since(began) < 20*time.Minute {
			time.Sleep(10 * time.Millisecond)
		}
		peak := peakMemory(robot.Process.Pid)
		time.Sleep(100 * time.Millisecond) // for a look at it
		robot.Kill()
		b.ReportMetric(<-peak, "MB")
	}
	b.ReportMetric(0, "ns/op")
}

// fillFrontier queues URLs of all hosts in the robot's first cycle.
func fillFrontier(b *testing.B, cfg *config.Config, w *mortalWeb, urls int) {
	b.Helper()
	testkit.Must(b, config.SaveJSON(filepath.Join(cfg.DataDir, "cycle.json"), map[string]any{"number": 1, "began": time.Now()}))
	f, err := frontier.Open(filepath.Join(cfg.DataDir, "frontier"), 1)
	if err != nil {
		b.Fatal(err)
	}
	for i := range w.hosts {
		h, err := f.Host(w.host(i))
		if err != nil {
			b.Fatal(err)
		}
		links := make([]frontier.Entry, 0, 1000)
		for n := range urls / w.hosts {
			links = append(links, frontier.Entry{URL: fmt.Sprintf("http://%s/section%02d/article-%08d.html", w.host(i), n%64, n), Depth: 3})
			if len(links) == cap(links) || n == urls/w.hosts-1 {
				if _, err := h.Push(links...); err != nil {
					b.Fatal(err)
				}
				links = links[:0]
			}
		}
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
}

// lost counts the requests for pages that are not there, robots.txt among them.
func (w *mortalWeb) lost() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.strangers
}
