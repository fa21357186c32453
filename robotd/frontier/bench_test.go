package frontier

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"sheaf/internal/testkit"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Environment of BenchmarkFrontier: SHEAF_BENCH_URLS known URLs (default 100,000; the goal is
// 10,000,000) on SHEAF_BENCH_HOSTS hosts (default 100). Each step runs in a process of its own and
// continues with the files of the step before.
const (
	benchURLs  = "SHEAF_BENCH_URLS"
	benchHosts = "SHEAF_BENCH_HOSTS"
	benchStep  = "SHEAF_BENCH_STEP" // set in the steps' processes
)

// measured is the report of a step's process.
type measured struct {
	Took  time.Duration
	Count int
	Disk  int64 // bytes of files
	RAM   int64 // growth of resident memory since its start, in bytes
	Peak  int64 // peak of resident memory, in bytes
}

// bench is the frontier of a step, with all hosts open.
type bench struct {
	*Frontier
	hosts []*Host
	urls  int
	links int // of a page
}

var benchSteps = map[string]func(b *bench) (count int, err error){
	"push": func(b *bench) (int, error) { // in the order in which pages of many hosts come
		links := make([]Entry, 0, b.links)
		for n := 0; n < b.urls; {
			for i, h := range b.hosts {
				links = links[:0]
				for len(links) < cap(links) && n < b.urls {
					links = append(links, b.entry(i, n))
					n++
				}
				if _, err := h.Push(links...); err != nil {
					return n, err
				}
			}
		}
		return b.urls, nil
	},
	"start": nil, // only opens the hosts
	"known": func(b *bench) (int, error) { // links to known pages
		links := make([]Entry, b.links)
		per := len(b.hosts) * b.links
		count := min(b.urls, 1_000_000)
		for n := 0; n < count; n += b.links {
			host := rand.IntN(len(b.hosts))
			for i := range links {
				links[i] = b.entry(host, rand.IntN(b.urls/per)*per+host*b.links+i)
			}
			if fresh, err := b.hosts[host].Push(links...); err != nil || fresh > 0 {
				return n, fmt.Errorf("%d links to known pages were taken for new: %w", fresh, err)
			}
		}
		return count, nil
	},
	"head": func(b *bench) (int, error) { // reads the queue
		count := 0
		for _, h := range b.hosts {
			for range min(10_000, b.urls/len(b.hosts)) {
				a, err := h.look()
				if err != nil {
					return count, err
				}
				h.last.consumed += a.widths[0]
				a.pass()
				count++
			}
		}
		return count, nil
	},
	"pop": func(b *bench) (int, error) { // takes pages and writes the journal
		count := min(b.urls, 1_000_000)
		for n := range count {
			h := b.hosts[n%len(b.hosts)]
			if _, _, err := h.Head(); err != nil {
				return n, err
			}
			visit := Visit{Digest: "sha256:" + strings.Repeat("A", 52), Full: time.Now(), ETag: `"5f3c-1a2b3c4d5e6f7"`}
			if err := h.Finish(Done{Segment: "bench-20261121T021500-000001Z", End: int64(n), Visit: visit}); err != nil {
				return n, err
			}
		}
		return count, nil
	},
	"settle": func(b *bench) (int, error) { // the end of the cycle
		return min(b.urls, 1_000_000), b.Advance(2)
	},
}

func (b *bench) entry(host, n int) Entry {
	return Entry{URL: fmt.Sprintf("http://%s/section%02d/article-%08d.html", benchHost(host), n%64, n), Depth: 3}
}

func benchHost(n int) string { return fmt.Sprintf("www.host%06d.example.ac.jp", n) }

func TestMain(m *testing.M) {
	if step := os.Getenv(benchStep); step != "" {
		if err := runStep(step, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func runStep(step, dir string) error {
	hosts, urls := benchSize(benchHosts, 100), benchSize(benchURLs, 100_000)
	before, _ := resident()
	began := time.Now()
	f, err := Open(dir, 1)
	if err != nil {
		return err
	}
	b := &bench{Frontier: f, hosts: make([]*Host, hosts), urls: urls, links: max(1, min(50, urls/hosts))}
	for i := range b.hosts {
		if b.hosts[i], err = f.Host(benchHost(i)); err != nil {
			return err
		}
	}
	m := measured{Count: urls}
	if do := benchSteps[step]; do != nil {
		began = time.Now()
		if m.Count, err = do(b); err != nil {
			return err
		}
	}
	m.Took = time.Since(began)
	debug.FreeOSMemory()
	after, peak := resident()
	m.RAM, m.Peak = after-before, peak
	m.Disk = f.seen.Disk()
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		m.Disk += st.Size()
		return err
	})
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(m), f.Close())
}

func benchSize(env string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(env)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// resident returns the process's current and peak memory, in bytes.
func resident() (now, peak int64) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(data)) {
		for name, p := range map[string]*int64{"VmRSS:": &now, "VmHWM:": &peak} {
			if rest, ok := strings.CutPrefix(line, name); ok {
				fmt.Sscan(rest, p)
				*p <<= 10
			}
		}
	}
	return now, peak
}

func BenchmarkFrontier(b *testing.B) {
	dir, urls := b.TempDir(), float64(benchSize(benchURLs, 100_000))
	run := func(step string) measured {
		cmd := exec.Command(os.Args[0], dir)
		cmd.Env = append(os.Environ(), benchStep+"="+step)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		var m measured
		if err == nil {
			err = json.Unmarshal(out, &m)
		}
		if err != nil {
			b.Fatalf("%s: %v", step, err)
		}
		return m
	}
	each := func(m measured) float64 { return float64(m.Took.Nanoseconds()) / float64(m.Count) }
	for b.Loop() {
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil {
			b.Fatal(err)
		}
		push := run("push")
		b.ReportMetric(each(push), "ns/push")
		b.ReportMetric(float64(push.RAM)/urls, "B-RAM/URL")
		b.ReportMetric(float64(push.Disk)/urls, "B-disk/URL")
		b.ReportMetric(float64(push.Peak)/(1<<20), "MB-peak")
		start := run("start")
		b.ReportMetric(start.Took.Seconds(), "s/start")
		b.ReportMetric(float64(start.Peak)/(1<<20), "MB-peak-start")
		b.ReportMetric(each(run("known")), "ns/known")
		b.ReportMetric(each(run("head")), "ns/head")
		pop := run("pop")
		b.ReportMetric(each(pop), "ns/pop")
		b.ReportMetric(float64(pop.Disk-push.Disk)/float64(pop.Count), "B-disk/visit")
		settle := run("settle")
		b.ReportMetric(settle.Took.Seconds(), "s/settle")
		b.ReportMetric(float64(settle.Peak)/(1<<20), "MB-peak-settle")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkHandover hands over a host with a hundred thousand queued URLs and as many known pages,
// and tells the bytes of a URL in the file.
func BenchmarkHandover(b *testing.B) {
	const urls = 100_000
	f, err := Open(b.TempDir(), 1)
	testkit.Must(b, err)
	h, err := f.Host("www.example.jp")
	testkit.Must(b, err)
	url := func(cycle, i int) string {
		sum := sha256.Sum256(fmt.Append(nil, cycle, i))
		return fmt.Sprintf("https://www.example.jp/articles/%d/%02d/%x-news-of-the-day.html", 2000+i%25, i%12, sum[:6])
	}
	for cycle := 1; cycle <= 2; cycle++ {
		for i := range urls {
			_, err := h.Push(Entry{URL: url(cycle, i), Depth: 3})
			testkit.Must(b, err)
			if cycle == 1 {
				_, _, err = h.Head()
				testkit.Must(b, err)
				sum := sha256.Sum256(fmt.Append(nil, i))
				testkit.Must(b, h.Finish(Done{Visit: Visit{Digest: fmt.Sprintf("sha256:%X", sum), Full: time.Unix(int64(1e9+i), 0)}}))
			}
		}
		if cycle == 1 {
			testkit.Must(b, f.Advance(2))
			h, err = f.Host("www.example.jp")
			testkit.Must(b, err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		body, err := f.TempFile()
		testkit.Must(b, err)
		queued, _, err := h.Export(body, true)
		testkit.Must(b, err)
		size, err := body.Seek(0, io.SeekCurrent)
		testkit.Must(b, err)
		_, err = body.Seek(0, io.SeekStart)
		testkit.Must(b, err)
		to, err := Open(b.TempDir(), 2)
		testkit.Must(b, err)
		testkit.Must(b, to.Import("www.example.jp", body, 1<<30, queued))
		testkit.Must(b, body.Close())
		b.ReportMetric(float64(size)/urls, "bytes/URL")
	}
}
