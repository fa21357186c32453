package robotd

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/robotd/config"
	"sheaf/robotd/frontier"
)

// benchPages names how many pages each of the 100 hosts has that robot and peers crawl; default
// 200.
const benchPages = "SHEAF_BENCH_PAGES"

func newBenchWeb(b *testing.B) *synthweb {
	b.Helper()
	return newSynthweb(b, "-hosts", "100", "-pages", cmp.Or(os.Getenv(benchPages), "200"))
}

// BenchmarkCrawl measures the whole robot as a process of its own: 20,000 pages of
// 100 hosts on 100 addresses, without an interval, from a synthetic web that runs
// on the same processors.
//
//	go test ./robotd -run - -bench Crawl -benchtime 3x
func BenchmarkCrawl(b *testing.B) {
	for _, c := range []struct {
		name  string
		level int
		sign  string
	}{{"level=3", 3, ""}, {"level=6", 6, ""}, {"signed", 6, "https://archive.example.jp"}} {
		b.Run(c.name, func(b *testing.B) {
			var sum crawled
			for b.Loop() {
				web := newBenchWeb(b)
				cfg := testConfig(b, newService(b, web.seeds...), nil)
				cfg.Interval, cfg.Batch.Level, cfg.Identity.Sign = 0, c.level, c.sign
				robot := startRobot(b, cfg)
				peak := peakMemory(robot.Process.Pid)
				if err := robot.Ended(); err != nil {
					b.Fatal(err)
				}
				web.stop()
				st := web.last
				if st.Unique != st.Total || st.Pages != st.Unique {
					b.Fatalf("%d pages of %d were fetched, %d in all", st.Unique, st.Total, st.Pages)
				}
				sum.add(st, robot.ProcessState, <-peak)
			}
			sum.report(b)
		})
	}
}

// BenchmarkWidth visits 1,000 and 10,000 hosts at once, each on an address of its own, at the
// paper's interval. It reports the peak of memory above that of a robot with one host, and the
// requests as a share of what the interval allows: while every host is being visited, and over the
// whole crawl, whose first interval goes by until the last host is begun.
//
//	go test ./robotd -run - -bench Width -benchtime 1x -timeout 30m
func BenchmarkWidth(b *testing.B) {
	const pages = 5
	var steady float64 // requests a second while every host is being visited
	crawl := func(b *testing.B, hosts int, interval time.Duration) (synthStats, float64) {
		web := newSynthweb(b, "-hosts", fmt.Sprint(hosts), "-pages", fmt.Sprint(pages), "-base", "127.60.0.1")
		cfg := testConfig(b, newService(b, web.seeds...), nil)
		cfg.Interval, cfg.Concurrency = interval, hosts
		robot := startRobot(b, cfg)
		peak := peakMemory(robot.Process.Pid)
		if hosts > 1 {
			steady = steadyRate(web, interval)
		}
		if err := robot.Ended(); err != nil {
			b.Fatal(err)
		}
		web.stop()
		if st := web.last; st.ByIP.MaxConcurrency > 1 || hosts > 1 && st.ByIP.MinGap < interval.Seconds() || st.Unique != st.Total {
			b.Fatalf("%+v", st)
		}
		return web.last, <-peak
	}
	for _, hosts := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			for b.Loop() {
				const interval = 20 * time.Second
				_, idle := crawl(b, 1, 0)
				st, peak := crawl(b, hosts, interval)
				visits := float64(st.Requests) / float64(hosts)
				b.ReportMetric(peak-idle, "MB-above-idle")
				b.ReportMetric(100*steady*interval.Seconds()/float64(hosts), "%of-bound")
				b.ReportMetric(100*(visits-1)*interval.Seconds()/st.Seconds, "%of-bound-in-all")
				b.ReportMetric(float64(st.Requests)/st.Seconds, "requests/s")
			}
		})
	}
}

// steadyRate gives the requests a second of the time in which every host has been begun and none is
// exhausted, which begins an interval after the first request.
func steadyRate(web *synthweb, interval time.Duration) float64 {
	for web.stats().Requests == 0 {
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(interval + interval/4)
	from := web.stats()
	time.Sleep(3 * interval)
	to := web.stats()
	return float64(to.Requests-from.Requests) / (to.Seconds - from.Seconds)
}

// peers crawl the same pages in the same run, each as it is used where speed is wanted: 100
// fetches at once, no interval, all links of the seeds' hosts.
//
//	go test ./robotd -run - -bench 'Crawl|Peers' -benchtime 3x -timeout 60m
//
// The table of all of them: go run ./test/bench crawl.
var peers = []struct {
	name string
	make func(b *testing.B) func(seeds string) *exec.Cmd
}{
	// It writes the pages to files.
	{"wget2", func(b *testing.B) func(string) *exec.Cmd {
		wget := testkit.Tool(b, "wget2")
		return func(seeds string) *exec.Cmd {
			return exec.Command(wget, "--quiet", "--recursive", "--level=0", "--max-threads=100", "-P", b.TempDir(), "-i", seeds)
		}
	}},
	// It writes one archive, and fetches one page at a time.
	{"wget-warc", func(b *testing.B) func(string) *exec.Cmd {
		wget := testkit.Tool(b, "wget")
		return func(seeds string) *exec.Cmd {
			dir := b.TempDir()
			return exec.Command(wget, "--quiet", "--recursive", "--level=inf", "--delete-after", "--warc-file="+filepath.Join(dir, "all"), "-P", dir, "-i", seeds)
		}
	}},
	// It keeps nothing.
	{"colly", func(b *testing.B) func(string) *exec.Cmd {
		bin := filepath.Join(b.TempDir(), "colly")
		build := exec.Command("go", "build", "-o", bin, ".")
		build.Dir = filepath.Join("..", "test", "bench", "colly")
		if out, err := build.CombinedOutput(); err != nil {
			testkit.Missing(b, "colly, which test/bench/colly gets as a module, does not build: %v\n%s", err, out)
		}
		return func(seeds string) *exec.Cmd { return exec.Command(bin, seeds) }
	}},
	// It keeps nothing.
	{"scrapy", func(b *testing.B) func(string) *exec.Cmd {
		scrapy := testkit.Tool(b, "scrapy")
		spider := filepath.Join("..", "test", "bench", "spider.py")
		return func(seeds string) *exec.Cmd { return exec.Command(scrapy, "runspider", spider, "-a", "seeds="+seeds) }
	}},
}

func BenchmarkPeers(b *testing.B) {
	for _, peer := range peers {
		b.Run(peer.name, func(b *testing.B) {
			command := peer.make(b)
			var sum crawled
			for b.Loop() {
				web := newBenchWeb(b)
				seeds := filepath.Join(b.TempDir(), "seeds")
				if err := os.WriteFile(seeds, []byte(strings.Join(web.seeds, "\n")), 0o644); err != nil {
					b.Fatal(err)
				}
				cmd := command(seeds)
				if err := cmd.Start(); err != nil {
					b.Fatal(err)
				}
				peak := peakMemory(cmd.Process.Pid)
				_ = cmd.Wait() // links that robots.txt forbids or that lead nowhere make some fail
				web.stop()
				if web.last.Unique == 0 {
					b.Fatalf("%s fetched nothing", cmd)
				}
				sum.add(web.last, cmd.ProcessState, <-peak)
			}
			sum.report(b)
		})
	}
}

// crawled adds up what crawls of the same web have cost.
type crawled struct{ pages, fetches, seconds, cpu, memory float64 }

func (c *crawled) add(st synthStats, end *os.ProcessState, peak float64) {
	c.pages, c.fetches, c.seconds = c.pages+float64(st.Unique), c.fetches+float64(st.Pages), c.seconds+st.Seconds
	c.cpu += (end.UserTime() + end.SystemTime()).Seconds()
	c.memory = max(c.memory, peak)
}

// report tells of pages that are each counted once, however often they were fetched.
func (c *crawled) report(b *testing.B) {
	b.ReportMetric(c.pages/c.seconds, "pages/s")
	b.ReportMetric(c.cpu/c.pages*1000, "cpu-s/1000pages")
	b.ReportMetric(c.memory, "MB")
	b.ReportMetric(c.fetches/c.pages, "fetches/page")
}

// peakMemory gives, once the process has ended, the most memory it ever held, in MiB. What the
// kernel tells of a child at its end counts the parent's memory before exec too.
func peakMemory(pid int) <-chan float64 {
	peak := make(chan float64, 1)
	go func() {
		last := 0.0
		for {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			_, rest, found := strings.Cut(string(status), "VmHWM:")
			if err != nil || !found { // gone, or a zombie
				peak <- last
				return
			}
			var kib float64
			if _, err := fmt.Sscan(rest, &kib); err == nil {
				last = kib / 1024
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return peak
}

// profileEnv names a folder into which robots that are processes of their own write what they
// do: the processor's time while they run, and the heap each ten seconds, the largest kept.
const profileEnv = "ROBOTD_TEST_PROFILE"

// profile writes profiles until the returned function is called.
func profile(dir string) (stop func()) {
	file := func(kind string) *os.File {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%s-%d.pprof", kind, os.Getpid())))
		if err != nil {
			panic(err)
		}
		return f
	}
	runtime.MemProfileRate = 8 << 10 // of ten thousand hosts' small pieces each 512 KiB would tell little
	cpu := file("cpu")
	if err := pprof.StartCPUProfile(cpu); err != nil {
		panic(err)
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var most uint64
		for {
			select {
			case <-end:
				return
			case <-time.After(10 * time.Second):
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if m.HeapInuse+m.StackInuse <= most {
				continue
			}
			most = m.HeapInuse + m.StackInuse
			heap, routines := file("heap"), file("goroutines")
			_ = pprof.Lookup("heap").WriteTo(heap, 0)
			_ = pprof.Lookup("goroutine").WriteTo(routines, 0)
			fmt.Fprintf(os.Stderr, "heap in use %d, live %d, stacks %d, sys %d, goroutines %d\n", m.HeapInuse, m.HeapAlloc, m.StackInuse, m.Sys, runtime.NumGoroutine())
			heap.Close()
			routines.Close()
		}
	}()
	return func() {
		close(end)
		<-ended
		pprof.StopCPUProfile()
		cpu.Close()
	}
}

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
