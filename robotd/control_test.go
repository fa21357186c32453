package robotd

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/robotd/config"
	"sheaf/robotd/control"
	"sheaf/robotd/polite"
)

// runDaemon runs a robot until the returned function is called.
func runDaemon(t *testing.T, cfg config.Config) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg, testLog(t)) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// The operator pauses a robot: visits end, what is collected is handed in, a restart changes
// nothing; then it is resumed, and the crawl comes to its end.
func TestPause(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const pages = 150
	site := newSite(t, "127.0.0.81")
	site.tree("www.a.test", pages)
	release := site.holdAfter(50) // a crawl of 150 pages may else be over before the pause
	defer release()
	s := newService(t, "http://www.a.test/")
	cfg := testConfig(t, s, map[string]string{"www.a.test": site.addr})
	cfg.Once, cfg.Heartbeat = false, 20*interval
	cfg.Metrics = testkit.Addresses(t, 1)[0]
	monitor := control.NewMonitor(cfg.DataDir)
	stop := runDaemon(t, cfg)
	testkit.Until(t, "a crawl", func() bool {
		st, running, err := monitor.Status(t.Context(), -1)
		return err == nil && running && st.Pages.Total > 20
	})
	if running, err := monitor.SetPaused(t.Context(), true); err != nil || !running {
		t.Fatalf("pause: %t, %v", running, err)
	}
	asked := func() int {
		site.mu.Lock()
		defer site.mu.Unlock()
		return site.asked
	}
	atPause := asked()
	release()
	arrived := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		n := 0
		for _, b := range s.batches {
			n += len(b.cells["www.a.test"])
		}
		return n
	}
	testkit.Until(t, "batches while paused", func() bool { return arrived() > 0 })
	st, _, err := monitor.Status(t.Context(), -1)
	testkit.Until(t, "the page in hand", func() bool {
		st, _, err = monitor.Status(t.Context(), -1)
		return st.Visited == 0
	})
	if n := asked() - atPause; n > 1 {
		t.Errorf("%d accesses after the pause began; one may have been on its way", n)
	}
	if err != nil || st.Paused.IsZero() || len(st.PerHost) != 1 || st.Forecast == nil || st.Forecast.Pages != st.PerHost[0].Left {
		t.Errorf("status while paused: %+v, %v", st, err)
	}
	health, metrics := get(t, cfg.Metrics, "/healthz"), get(t, cfg.Metrics, "/metrics")
	if !strings.Contains(health, `"ok":true`) || !strings.Contains(health, `"paused":true`) {
		t.Errorf("health: %s", health)
	}
	for _, want := range []string{"robotd_paused 1", "robotd_hosts 1", `robotd_module_queue{module="fetch"}`, "process_resident_memory_bytes"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	stop()
	if last, running, err := monitor.Status(t.Context(), 0); err != nil || running || last.Paused.IsZero() {
		t.Errorf("status after the end: %+v, %t, %v", last, running, err)
	}
	fetched := func() int {
		site.mu.Lock()
		defer site.mu.Unlock()
		return len(site.hits)
	}
	before := fetched()
	stop = runDaemon(t, cfg)
	testkit.Until(t, "the second start", func() bool {
		st, running, err := monitor.Status(t.Context(), 0)
		return err == nil && running && st.Waiting == 1
	})
	s.heard(t, 3)
	if n := fetched(); n != before {
		t.Errorf("%d accesses by a paused robot", n-before)
	}
	if running, err := monitor.SetPaused(t.Context(), false); err != nil || !running {
		t.Fatalf("resume: %t, %v", running, err)
	}
	testkit.Until(t, "all pages", func() bool { return arrived() == pages })
	stop()
	if running, err := monitor.SetPaused(t.Context(), true); err != nil || running {
		t.Errorf("pause without a daemon: %t, %v", running, err)
	}
	if p, err := polite.SitePause(cfg.DataDir); err != nil || p.Since().IsZero() {
		t.Errorf("the pause without a daemon: %v", err)
	}
}

func get(t *testing.T, addr, path string) string {
	t.Helper()
	resp, err := http.Get("http://" + addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", path, resp.Status, err)
	}
	return string(data)
}

// What a consumer of the tap reads is what the archive gives out as warc.gz, byte for byte.
func TestTapIsTheArchive(t *testing.T) {
	testkit.Slow(t)
	site := newSite(t, "127.0.0.82")
	site.tree("www.a.test", 150)
	site.page("www.a.test/0.bin", "application/octet-stream", bytes.Repeat([]byte{0, 255, 7}, 50_000))
	s := newService(t, "http://www.a.test/", "http://www.a.test/0.bin")
	cfg := testConfig(t, s, map[string]string{"www.a.test": site.addr})
	cfg.Tap.Socket, cfg.Interval = "", 0
	r, err := New(cfg, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := config.DialSocket(t.Context(), cfg.TapSocket())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	testkit.Until(t, "the consumer", r.records.Tap.Active)
	live := make(chan []byte, 1)
	go func() {
		data, err := io.ReadAll(conn)
		if err != nil {
			t.Error(err)
		}
		live <- data
	}()
	for _, run := range []func(context.Context) error{r.Cycle, r.Drain} {
		if err := run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.batches[0].manifest
	h := m.Hosts[0]
	part := s.uploads[string(m.Batch)].Bytes()[h.Offset : h.Offset+h.Length]
	idx := &archive.Index{Cells: s.batches[0].cells[h.Name]}
	view, err := archive.NewView(archive.WARC, []archive.Part{{Source: archive.FileSource(bytes.NewReader(part), 0), Index: idx}})
	if err != nil {
		t.Fatal(err)
	}
	in, err := view.OpenRange(t.Context(), 0, view.Size())
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	want, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	if got := <-live; len(idx.Cells) != 151 || !bytes.Equal(got, want) {
		t.Errorf("the consumer read %d bytes, the archive has %d of %d records", len(got), len(want), len(idx.Cells))
	}
}

// A dry run visits nothing and leaves the folder as it is.
func TestDryRun(t *testing.T) {
	site := newSite(t, "127.0.0.83")
	site.tree("www.a.test", 3)
	s := newService(t, "http://www.a.test/", "http://www.b.test/", "http://nowhere.invalid/")
	cfg := testConfig(t, s, map[string]string{"www.a.test": site.addr, "www.b.test": site.addr})
	cfg.Interval, cfg.Network.Resolver = 20*time.Second, "127.0.0.1:1"
	before := contents(t, cfg.DataDir)
	plan, err := DryRun(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Hosts != 3 || plan.Addresses != 1 || len(plan.Unknown) != 1 || plan.Unknown[0].Host != "nowhere.invalid" || len(plan.Visits) != 2 {
		t.Fatalf("%+v", plan)
	}
	if gap := plan.Visits[1].At.Sub(plan.Visits[0].At); gap != cfg.Interval || plan.Visits[0].At.Before(plan.From) {
		t.Errorf("two hosts of one address are visited %v apart, the first at %v", gap, plan.Visits[0].At)
	}
	if after := contents(t, cfg.DataDir); after != before {
		t.Errorf("the folder had %s, now %s", before, after)
	}
	if len(site.hits) != 0 {
		t.Errorf("visited: %v", site.hits)
	}
}

func contents(t *testing.T, dir string) string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A check names what would keep the robot from working.
func TestCheck(t *testing.T) {
	s := newService(t, "http://www.a.test/", "http://nowhere.invalid/")
	good := testConfig(t, s, map[string]string{"www.a.test": "127.0.0.1"})
	good.Network.Resolver = "127.0.0.1:1"
	for _, c := range []struct {
		what   string
		change func(*config.Config)
	}{
		{"", func(*config.Config) {}},
		{"settings", func(c *config.Config) { c.Interval = -1 }},
		{"window", func(c *config.Config) { c.Window = "never" }},
		{"folder", func(c *config.Config) { c.DataDir = "/proc" }},
		{"folder", func(c *config.Config) { c.Disk.Free = math.MaxInt64 / 2 }},
		{"manager", func(c *config.Config) { c.Manager = []string{"http://127.0.0.1:1"} }},
		{"hosts", func(c *config.Config) { c.Network.Hosts = nil }},
	} {
		cfg := good
		c.change(&cfg)
		wrong := ""
		ok := Check(t.Context(), cfg, func(f Finding) {
			if !f.OK && wrong == "" {
				wrong = f.What
			}
		})
		if ok != (c.what == "") || wrong != c.what {
			t.Errorf("wanted %q to be wrong: %t, %q", c.what, ok, wrong)
		}
	}
}

// A consumer reads every record of a crawl as a warc.gz, while another one that takes
// nothing does not hold it up.
func TestTap(t *testing.T) {
	testkit.Slow(t)
	t.Parallel() // the robot's end waits a second for the consumer that takes nothing
	const pages = 200
	site := newSite(t, "127.0.0.71")
	site.tree("www.a.test", pages)
	s := newService(t, "http://www.a.test/")
	cfg := testConfig(t, s, map[string]string{"www.a.test": site.addr})
	dir, err := os.MkdirTemp("", "tap") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	cfg.Tap.Socket, cfg.Interval = filepath.Join(dir, "s"), 0
	r, err := New(cfg, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan string, 1)
	for _, reads := range []bool{true, false} {
		conn, err := net.Dial("unix", cfg.Tap.Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		z, err := gzip.NewReader(bufio.NewReader(conn)) // the start: it is connected now
		if err != nil {
			t.Fatal(err)
		}
		if reads {
			go func() {
				all, err := io.ReadAll(z)
				if err != nil {
					t.Error(err)
				}
				read <- string(all)
			}()
		}
	}
	if err := r.Cycle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	warc := <-read
	if !strings.HasPrefix(warc, "WARC/1.1\r\nWARC-Type: warcinfo\r\n") {
		t.Errorf("the stream begins with %.200q", warc)
	}
	if n := strings.Count(warc, "WARC-Type: response\r\n"); n != pages || !strings.Contains(warc, "\r\n\r\n<title>0</title>") {
		t.Errorf("%d records were read, want %d", n, pages)
	}
}
