package catalog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/internal/testkit"
)

// BenchmarkCatalogAtSize publishes editions of many hosts, merged as the service
// does, and then reads in a process of its own. By default it is small; in full,
// which takes some 12 GiB of disk below SHEAF_BENCH_DIR (the system's temporary
// directory, if empty), it is run as
//
//	SHEAF_BENCH_HOSTS=1000000 SHEAF_BENCH_EDITIONS=30 go test -run '^$' -bench CatalogAtSize -benchtime 1x -timeout 3h ./archive/catalog
//
// A reader makes 100,000 look-ups, or SHEAF_BENCH_LOOKUPS. What was built is kept, and used again,
// where SHEAF_BENCH_STORE names a directory for it.
func BenchmarkCatalogAtSize(b *testing.B) {
	for range b.N {
		size := sizeFromEnv()
		dir := os.Getenv("SHEAF_BENCH_STORE")
		if dir == "" {
			made, err := os.MkdirTemp(os.Getenv("SHEAF_BENCH_DIR"), "sheaf-bench-")
			if err != nil {
				b.Fatal(err)
			}
			defer os.RemoveAll(made)
			dir = made
		}
		buildAtSize(b, dir, size)
		readAtSize(b, dir)
	}
}

// buildAtSize publishes the editions that the store lacks.
func buildAtSize(b *testing.B, dir string, size atSize) {
	ctx := b.Context()
	fsStore, err := store.OpenFS(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer fsStore.Close()
	st := &measuredStore{Store: fsStore}
	c, err := catalog.Open(ctx, st, catalog.Options{TempDir: b.TempDir(), Now: func() time.Time { return noon }})
	if err != nil {
		b.Fatal(err)
	}
	var publishing, merging time.Duration
	var published, merged int64
	for e := range size.editions {
		start, before := time.Now(), st.put.Load()
		v, err := c.Publish(ctx, size.edition(e))
		if err != nil {
			b.Fatal(err)
		}
		took, wrote := time.Since(start), st.put.Load()-before
		publishing, published = publishing+took, published+wrote
		start, before = time.Now(), st.put.Load()
		if err := c.Merge(ctx); err != nil {
			b.Fatal(err)
		}
		mergeTook, mergeWrote := time.Since(start), st.put.Load()-before
		merging, merged = merging+mergeTook, merged+mergeWrote
		b.Logf("edition %d, version %d: published %d MiB in %v, merged %d MiB in %v", e+1, v.N, wrote>>20, took, mergeWrote>>20, mergeTook)
	}
	if published == 0 {
		return
	}
	b.Logf("built: %d rows; published %d MiB in %v, merged %d MiB in %v; write amplification %.2f; on disk %d MiB",
		size.hosts*size.editions, published>>20, publishing, merged>>20, merging, float64(published+merged)/float64(published), diskUse(b, dir)>>20)
	b.ReportMetric(publishing.Seconds(), "publish-s")
	b.ReportMetric(merging.Seconds(), "merge-s")
	b.ReportMetric(float64(published+merged)/float64(published), "write-amp")
}

// measuredStore counts the bytes that are put.
type measuredStore struct {
	store.Store
	put atomic.Int64
}

func (m *measuredStore) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	err := m.Store.Put(ctx, key, r, size)
	if err == nil {
		m.put.Add(size)
	}
	return err
}

func diskUse(b *testing.B, dir string) (n int64) {
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			info, err := e.Info()
			if err != nil {
				return err
			}
			n += info.Size()
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// figures are what one reader measured, in seconds and MiB.
type figures map[string]float64

const readerStore = "SHEAF_BENCH_READER_STORE"

// readAtSize measures a reader in a process that has done nothing else.
func readAtSize(b *testing.B, dir string) {
	cmd := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^TestReaderAtSize$", "-test.timeout=1h")
	cmd.Env = append(os.Environ(), readerStore+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("reader: %v\n%s", err, out)
	}
	line := out[bytes.IndexByte(out, '{'):]
	var f figures
	if err := json.NewDecoder(bytes.NewReader(line)).Decode(&f); err != nil {
		b.Fatalf("reader: %v\n%s", err, out)
	}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		b.Logf("%-28s %.3f", name, f[name])
		b.ReportMetric(f[name], name)
	}
}

// TestReaderAtSize is the process that readAtSize starts. By itself it checks the
// same reading on a small catalog, so that the benchmark cannot rot.
func TestReaderAtSize(t *testing.T) {
	testkit.Slow(t)
	size, dir := sizeFromEnv(), os.Getenv(readerStore)
	lookups := fromEnv("SHEAF_BENCH_LOOKUPS", 100_000)
	if dir == "" {
		size, dir, lookups = atSize{500, 10}, t.TempDir(), 50
		st, err := store.OpenFS(dir)
		if err != nil {
			t.Fatal(err)
		}
		c := openWith(t, st, catalog.Options{})
		for e := range size.editions {
			publish(t, c, size.edition(e))
			if err := c.Merge(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
	f, err := measureReader(t.Context(), dir, size, lookups, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(readerStore) != "" {
		if err := json.NewEncoder(os.Stdout).Encode(f); err != nil {
			t.Fatal(err)
		}
	}
}

// measureReader opens the catalog, reads it in the ways that serving does, and publishes a little
// more.
func measureReader(ctx context.Context, dir string, size atSize, lookups int, temp string) (figures, error) {
	f := figures{}
	if err := forget(dir); err != nil {
		return nil, err
	}
	start := time.Now()
	st, err := store.OpenFS(dir)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	c, err := catalog.Open(ctx, st, catalog.Options{TempDir: temp, Now: func() time.Time { return noon }})
	if err != nil {
		return nil, err
	}
	f["start-s"], f["start-rss-MiB"] = time.Since(start).Seconds(), rss()
	s, err := c.Pin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	reader := &reader{ctx: ctx, s: s, size: size, random: rand.New(rand.NewPCG(1, 2)), figures: f}
	if err := forget(dir); err != nil {
		return nil, err
	}
	reader.measure("lookup-cold", max(lookups/100, 10), reader.lookUp)
	reader.measure("lookup", lookups, reader.lookUp)
	f["lookup-rss-MiB"] = rss()
	for _, page := range []struct {
		name, path string
		limit      int
	}{
		{"page100-jp", "jp", 100}, {"page1000-jp", "jp", 1000}, {"page1000-jp-co", "jp/co", 1000},
		{"page100-portal", "jp/ne/portal07", 100}, {"page1000-portal", "jp/ne/portal07", 1000},
	} {
		reader.measure(page.name, max(lookups/500, 3), func() error { return reader.page(page.path, page.limit) })
	}
	reader.measure("hosts1000-jp-co", max(lookups/500, 3), func() error { return reader.hosts("jp,co,", 1000) })
	reader.measure("page-top", max(lookups/500, 3), func() error { return reader.entries("", 1) })
	reader.measure("edition-open", 5, func() error { return reader.edition() })
	reader.measure("pin", max(lookups/100, 3), func() error {
		p, err := c.Pin(ctx)
		if err == nil {
			p.Release()
		}
		return err
	})
	f["read-rss-MiB"] = rss()
	reader.measure("collect-dry", 1, func() error {
		_, err := c.Collect(ctx, catalog.CollectOptions{DryRun: true})
		return err
	})
	f["collect-rss-MiB"] = rss()
	reader.measure("publish-1000", 1, func() error {
		_, err := c.Publish(ctx, size.publication(int(time.Now().Unix()), min(1000, size.hosts)))
		return err
	})
	reader.measure("pin-of-new", 1, func() error { _, err := c.Pin(ctx); return err })
	return f, reader.err
}

type reader struct {
	ctx     context.Context
	s       *catalog.Snapshot
	size    atSize
	random  *rand.Rand
	figures figures
	err     error
}

// measure does something n times and notes the median and the 99th percentile, in
// milliseconds by the clock and of the processors' time, which tells what it would
// take on a machine that has nothing else to do.
func (r *reader) measure(name string, n int, do func() error) {
	took, used := make([]float64, n), make([]float64, n)
	for i := range took {
		start, cpu := time.Now(), cpuTime()
		if err := do(); err != nil && r.err == nil {
			r.err = fmt.Errorf("%s: %w", name, err)
		}
		took[i], used[i] = time.Since(start).Seconds()*1000, (cpuTime()-cpu).Seconds()*1000
	}
	for unit, values := range map[string][]float64{"ms": took, "cpu-ms": used} {
		slices.Sort(values)
		r.figures[name+"-p50-"+unit] = values[n/2]
		if n > 1 {
			r.figures[name+"-p99-"+unit] = values[min(n-1, n*99/100)]
		}
	}
}

// cpuTime is what the process has had of the processors.
func cpuTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t) // fails only for clocks that there are not
	return time.Duration(t.Nano())
}

func (r *reader) lookUp() error {
	host := r.size.host(r.random.IntN(r.size.hosts))
	lines, err := r.s.Host(r.ctx, host)
	if err == nil && len(lines) < r.size.editions {
		err = fmt.Errorf("host %s has %d lines", host, len(lines))
	}
	return err
}

// page lists a page of a directory from behind a random place on, which lies in
// the first half so that the page is full.
func (r *reader) page(path string, limit int) error {
	after := string([]byte{"hikmn"[r.random.IntN(5)], 'a', "hkmnrst"[r.random.IntN(7)]})
	children, err := r.s.Children(r.ctx, path, after, limit)
	if err == nil && len(children) < limit && r.size.hosts >= 1_000_000 {
		err = fmt.Errorf("%s after %s has %d entries, want %d", path, after, len(children), limit)
	}
	return err
}

// hosts lists hosts from behind a random place on, as page does.
func (r *reader) hosts(prefix string, limit int) error {
	after := prefix + string([]byte{"hikmn"[r.random.IntN(5)], 'a', "hkmnrst"[r.random.IntN(7)]})
	hosts, err := r.s.Hosts(r.ctx, prefix, after, limit)
	if err == nil && len(hosts) < limit && r.size.hosts >= 1_000_000 {
		err = fmt.Errorf("%s after %s has %d hosts, want %d", prefix, after, len(hosts), limit)
	}
	return err
}

func (r *reader) entries(path string, want int) error {
	children, err := r.s.Children(r.ctx, path, "", 1000)
	if err == nil && len(children) != want {
		err = fmt.Errorf("%q has %d entries, want %d", path, len(children), want)
	}
	return err
}

// edition reads the first lines of an edition.
func (r *reader) edition() error {
	editions, err := r.s.Editions(r.ctx)
	if err != nil {
		return err
	}
	n := 0
	for _, err := range r.s.Edition(r.ctx, editions[r.random.IntN(min(len(editions), r.size.editions))].Name) {
		if n++; err != nil || n == 100 {
			return err
		}
	}
	return errors.New("edition ended early")
}

// rss is the process's resident memory, in MiB.
func rss() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.Atoi(strings.Fields(rest)[0])
			return float64(kib) / 1024
		}
	}
	return -1
}

// forget drops the files below dir from the kernel's cache.
func forget(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
}
