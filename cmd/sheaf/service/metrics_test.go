package service

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/internal/db"
	"sheaf/internal/metrics"
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/test/metricstest"
)

// metered runs a service with metrics.
func metered(t *testing.T, settings map[string]any) *Service {
	t.Helper()
	return run(t, meteredSettings(t, settings))
}

// scrape asks a service for its metrics as Prometheus does.
func scrape(t *testing.T, s *Service) metricstest.Families {
	t.Helper()
	return metricstest.Scrape(t, s.Addresses().Metrics)
}

// used is a service in which every metric has something to tell.
func used(t *testing.T) *Service {
	t.Helper()
	data := t.TempDir()
	cert, key := testkit.CertificateFiles(t, t.TempDir(), "archive.example.jp")
	objects, err := store.OpenFS(filepath.Join(data, "store"))
	testkit.Must(t, err)
	c, err := catalog.Open(t.Context(), objects, catalog.Options{})
	testkit.Must(t, err)
	_, err = c.Publish(t.Context(), catalog.Publication{Batches: []catalog.Batch{{ID: "b1", SHA256: "x"}}, Entries: catalog.Entries()})
	testkit.Must(t, err)
	testkit.Must(t, objects.Close())
	s := metered(t, map[string]any{"data": data, "database.fresh": true, "drop.cert": cert, "drop.key": key, "store.copy": t.TempDir()})
	held(t, s)
	s.in("catalog")("publish-version", "after") // as the rooms' own catalog tells of it
	addRobot(t, s, "waseda", time.Minute)
	for _, direction := range []string{transfers.Upload, transfers.Download} {
		s.transfer(t, direction, 1<<20, time.Second)
	}
	cut := transfers.Transfer{At: time.Now(), Direction: transfers.Download, Protocol: "ftp", Who: "alice", Name: "x", Outcome: transfers.Aborted}
	testkit.Must(t, s.state.monitor.Transfers(transfers.New(s.state.db)).Record(t.Context(), cut))
	for _, path := range []string{"/", "/no/such/path", "/v1/cdx"} {
		resp, err := http.Get(s.Addresses().HTTP + path)
		testkit.Must(t, err)
		resp.Body.Close()
	}
	return s
}

// addRobot adds a robot that was last heard of some time ago.
func addRobot(t *testing.T, s *Service, name string, ago time.Duration) {
	t.Helper()
	seen := db.Millis(time.Now().Add(-ago))
	_, err := s.state.db.ExecContext(t.Context(), `INSERT INTO robots (name, created, joined, seen, subscribed, secret_hash) VALUES (?, ?, ?, ?, 1, ?)`, name, seen, seen, seen, []byte(name))
	testkit.Must(t, err)
}

// transfer ends a transfer, as the rooms tell of it.
func (s *Service) transfer(t *testing.T, direction string, bytes int64, took time.Duration) {
	t.Helper()
	end := transfers.Transfer{At: time.Now(), Direction: direction, Protocol: "http", Who: "waseda", Name: "x", Bytes: bytes, Took: took, Outcome: transfers.OK}
	testkit.Must(t, s.state.monitor.Transfers(transfers.New(s.state.db)).Record(t.Context(), end))
}

// The metrics follow Prometheus' conventions. No label is a host, an account or an address.
func TestMetricsAreWellMade(t *testing.T) {
	t.Parallel()
	s := used(t)
	all := scrape(t, s)
	problems, err := promlint.New(strings.NewReader(metricstest.Text(t, s.Addresses().Metrics))).Lint()
	testkit.Must(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	labels := make(map[string]bool)
	for name, f := range all {
		if len(f.Series) > 300 {
			t.Errorf("%s has %d series", name, len(f.Series))
		}
		for _, m := range f.Series {
			for _, l := range m.Labels {
				labels[l.Name] = true
				if strings.HasPrefix(name, "sheaf_") && regexp.MustCompile(`127\.0\.0\.1|^alice$`).MatchString(l.Value) {
					t.Errorf("%s has the label %s", name, l)
				}
			}
		}
	}
	for _, room := range []string{"source", "state", "lease", "operation", "holds", "channel", "direction", "route", "server", "robot", "check", "role", "write"} {
		if !labels[room] {
			t.Errorf("nothing has the label %s", room)
		}
	}
	for _, source := range []string{"catalog", "disks", "ftp", "health", "ingest", "jobs", "manager", "store", "transfers", "watches"} {
		want(t, all, 1, "sheaf_source_up", "source", source)
	}
	want(t, all, 1, "sheaf_up")
	want(t, all, 1, "sheaf_robots", "state", "working")
	want(t, all, 1, "sheaf_http_requests_total", "route", "none", "method", "get", "code", "404")
	want(t, all, 1, "sheaf_http_requests_total", "route", "/", "method", "get", "code", "200")
	want(t, all, 1<<20, "sheaf_transfer_bytes_total", "direction", "upload", "protocol", "http")
	want(t, all, 1, "sheaf_durable_writes_total", "room", "catalog", "write", "publish-version")
}

// Profiles and metrics are on their own address only, which can be left out.
func TestMetricsArePrivate(t *testing.T) {
	t.Parallel()
	s := metered(t, nil)
	for _, path := range []string{metrics.Path, "/debug/pprof/", "/debug/pprof/heap"} {
		inside, err := http.Get("http://" + s.Addresses().Metrics + path)
		testkit.Must(t, err)
		inside.Body.Close()
		outside, err := http.Get(s.Addresses().HTTP + path)
		testkit.Must(t, err)
		outside.Body.Close()
		if inside.StatusCode != http.StatusOK || outside.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s inside, %s outside", path, inside.Status, outside.Status)
		}
	}
	if at := metered(t, map[string]any{"metrics": ""}).Addresses().Metrics; at != "" {
		t.Errorf("metrics are at %s", at)
	}
}

// Without the database a scrape gives what is known without it, and says that the rest is missing.
func TestMetricsWithoutDatabase(t *testing.T) {
	t.Parallel()
	s := metered(t, nil)
	testkit.Must(t, s.state.db.Close())
	all := scrape(t, s)
	want(t, all, 0, "sheaf_up")
	want(t, all, 0, "sheaf_check_up", "check", "database")
	want(t, all, 0, "sheaf_source_up", "source", "ingest")
	want(t, all, 0, "sheaf_source_up", "source", "manager")
	want(t, all, 1, "sheaf_source_up", "source", "catalog")
	if _, ok := all.Value("sheaf_store_operations_total", "operation", "list"); !ok {
		t.Error("nothing of the store")
	}
	if all["sheaf_batches"] != nil {
		t.Error("batches without a database")
	}
}

// want expects a value.
func want(t testing.TB, f metricstest.Families, want float64, name string, labels ...string) {
	t.Helper()
	if got, ok := f.Value(name, labels...); !ok || got != want {
		t.Errorf("%s%q is %v (found: %v), want %v", name, labels, got, ok, want)
	}
}
