package ingest_test

import (
	"bufio"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sheaf/archive/store"
	"sheaf/archive/store/storetest"
	"sheaf/ingest/accept"
	"sheaf/internal/testkit"
	"sheaf/internal/window"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"
)

// BenchmarkSplit measures the split of a batch with full verification against
// what the same machine takes, in the same run, for `tar xzf` and `tar czf` per
// host, and for `cp`. Run it with a batch of 1 GB by
//
//	SHEAF_BENCH_BYTES=1000000000 go test -run '^$' -bench Split -benchtime 1x -timeout 30m ./ingest
func BenchmarkSplit(b *testing.B) {
	h := newInstallation(b)
	h.opt.Window = window.Never()
	h.opt.Limits.Splitters = 1
	h.open()
	batch, path := bigBatch(b, h, benchBytes(b))
	up := accept.Upload{Batch: batch.ID, Robot: batchtest.Robot, Protocol: "http", Path: path}
	for b.Loop() {
		if b.N > 1 {
			b.Fatal("one batch is split once: use -benchtime 1x")
		}
		b.ReportMetric(seconds(func() { run(b, "cp", path, filepath.Join(h.dir, "copy")) }), "s-cp")
		b.ReportMetric(seconds(func() { tarPerHost(b, path, filepath.Join(h.dir, "tar")) }), "s-tar")
		testkit.Must(b, resetPeak())
		_, _, err := h.in.Acceptor.Accept(b.Context(), up, batch.Signed)
		testkit.Must(b, err)
		b.ReportMetric(seconds(func() {
			h.run()
			h.await(batch.ID, wire.StatePostSplit)
		}), "s-split")
		b.ReportMetric(peakMB(b), "MB-peak-RSS")
		b.ReportMetric(float64(batch.Manifest.Size)/1e6, "MB-batch")
	}
}

// BenchmarkSplitSmallHosts measures the split of a batch of 20,000 tiny hosts with
// an object for each and with packs. The store counts; its directory syncs each
// object and the directory of each name.
//
//	go test -run '^$' -bench SplitSmallHosts -benchtime 1x -timeout 30m ./ingest
func BenchmarkSplitSmallHosts(b *testing.B) {
	const hosts = 20_000
	robots := batchtest.NewRobots(b)
	made := filepath.Join(b.TempDir(), "batch")
	f, err := os.Create(made)
	testkit.Must(b, err)
	var sites []batchtest.Host
	for i := range hosts {
		sites = append(sites, batchtest.Site("h"+strconv.Itoa(i)+".example.jp", 1))
	}
	batch := batchtest.MakeTo(b, f, robots, 1, sites...)
	testkit.Must(b, f.Close())
	for name, below := range map[string]int64{"own": 0, "packs": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			h := newInstallation(b)
			meter := store.NewMeter(h.store)
			h.store, h.opt.Robots = meter, robots
			h.opt.Window = window.Never()
			h.opt.Packs.Below = below
			h.open()
			path := filepath.Join(h.opt.Dir, "upload")
			run(b, "cp", made, path)
			for b.Loop() {
				if b.N > 1 {
					b.Fatal("one batch is split once: use -benchtime 1x")
				}
				testkit.Must(b, resetPeak())
				_, _, err := h.in.Acceptor.Accept(b.Context(), accept.Upload{Batch: batch.ID, Robot: batchtest.Robot, Protocol: "http", Path: path}, batch.Signed)
				testkit.Must(b, err)
				b.ReportMetric(seconds(func() {
					h.run()
					h.await(batch.ID, wire.StatePostSplit)
				}), "s-split")
				b.ReportMetric(float64(meter.Usages().Put.Calls), "puts")
				b.ReportMetric(peakMB(b), "MB-peak-RSS")
				b.ReportMetric(float64(batch.Manifest.Size)/1e6, "MB-batch")
			}
		})
	}
}

// BenchmarkAccepted measures the time from a manifest to its receipt, and from there until the
// batch is post-split, with accepted batches in the directory and in the store, an S3 on this
// machine.
//
//	SHEAF_BENCH_BYTES=256000000 go test -run '^$' -bench Accepted -benchtime 1x -timeout 30m ./ingest
func BenchmarkAccepted(b *testing.B) {
	for name, shared := range map[string]bool{"directory": false, "store": true} {
		b.Run(name, func(b *testing.B) {
			s3, err := store.OpenS3(b.Context(), storetest.StartVersity(b).Options(b))
			testkit.Must(b, err)
			h := newInstallation(b)
			h.store, h.opt.InStore, h.opt.Window = s3, shared, window.Never()
			h.open()
			batch, path := bigBatch(b, h, benchBytes(b))
			up := accept.Upload{Batch: batch.ID, Robot: batchtest.Robot, Protocol: "http", Path: path}
			for b.Loop() {
				if b.N > 1 {
					b.Fatal("one batch is split once: use -benchtime 1x")
				}
				b.ReportMetric(seconds(func() {
					_, _, err := h.in.Acceptor.Accept(b.Context(), up, batch.Signed)
					testkit.Must(b, err)
				}), "s-accept")
				b.ReportMetric(seconds(func() {
					h.run()
					h.await(batch.ID, wire.StatePostSplit)
				}), "s-split")
				b.ReportMetric(float64(batch.Manifest.Size)/1e6, "MB-batch")
			}
		})
	}
}

// benchBytes returns the size of the batch to make.
func benchBytes(b *testing.B) int64 {
	size := int64(64 << 20)
	if s := os.Getenv("SHEAF_BENCH_BYTES"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		testkit.Must(b, err)
		size = n
	}
	return size
}

func seconds(f func()) float64 {
	start := time.Now()
	f()
	return time.Since(start).Seconds()
}

// bigBatch makes a batch of at least size bytes from the pages of 50 hosts. Their text compresses
// about as well as real pages.
func bigBatch(b *testing.B, h *installation, size int64) (*batchtest.Batch, string) {
	const hosts, ratio = 50, 3
	path := filepath.Join(h.opt.Dir, "upload")
	f, err := os.Create(path)
	testkit.Must(b, err)
	w := bufio.NewWriterSize(f, 1<<20)
	rnd := rand.New(rand.NewPCG(1, 2))
	var list []batchtest.Host
	for i := range hosts {
		name := "h" + strconv.Itoa(i) + ".example.jp"
		list = append(list, batchtest.Host{Name: name, Each: func(yield func(batchtest.Page) bool) {
			for n, left := 0, size*ratio/hosts; left > 0; n++ {
				body := words(rnd, 4<<10+rnd.IntN(60<<10))
				left -= int64(len(body))
				if !yield(batchtest.Page{Path: "/" + strconv.Itoa(n) + ".html", Body: body}) {
					return
				}
			}
		}})
	}
	batch := batchtest.MakeTo(b, w, h.robots, 1, list...)
	testkit.Must(b, w.Flush())
	testkit.Must(b, f.Sync())
	testkit.Must(b, f.Close())
	return batch, path
}

// words returns about n bytes of text from a small vocabulary, with numbers between.
func words(rnd *rand.Rand, n int) []byte {
	var text []byte
	for len(text) < n {
		text = append(text, "<p>crawl robot archive waseda host batch "[rnd.IntN(20):]...)
		text = strconv.AppendUint(text, rnd.Uint64()>>rnd.IntN(50), 36)
	}
	return text
}

// tarPerHost splits as the distributor of 1999 did: it unpacks, and packs each host.
func tarPerHost(b *testing.B, batch, dir string) {
	testkit.Must(b, os.MkdirAll(dir, 0o750))
	run(b, "tar", "xzf", batch, "-C", dir)
	hosts, err := os.ReadDir(dir)
	testkit.Must(b, err)
	for _, host := range hosts {
		if !strings.HasPrefix(host.Name(), "_") {
			run(b, "tar", "czf", filepath.Join(dir, host.Name()+".tar.gz"), "-C", dir, host.Name())
		}
	}
}

func run(b testing.TB, name string, args ...string) {
	b.Helper()
	if out, err := exec.Command(testkit.Tool(b, name), args...).CombinedOutput(); err != nil {
		b.Fatalf("%s: %v: %s", name, err, out)
	}
}

// resetPeak resets the kernel's record of this process's peak memory.
func resetPeak() error { return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// peakMB returns the peak of resident memory since resetPeak, in MB.
func peakMB(b *testing.B) float64 {
	data, err := os.ReadFile("/proc/self/status")
	testkit.Must(b, err)
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); f[0] == "VmHWM:" {
			kb, err := strconv.ParseFloat(f[1], 64)
			testkit.Must(b, err)
			return kb * 1024 / 1e6
		}
	}
	b.Fatal("/proc/self/status tells no VmHWM")
	return 0
}
