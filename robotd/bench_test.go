package robotd

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
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
