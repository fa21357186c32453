package service

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/store/storetest"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
)

// begin starts a service that need not run, and gives its error.
func begin(t *testing.T, data string, settings map[string]any) (*Service, error) {
	t.Helper()
	all := map[string]any{"data": data, "stop": "1s"}
	maps.Copy(all, settings)
	return New(t.Context(), testConfig(t, all), slog.New(slog.DiscardHandler))
}

// end closes what New has opened.
func end(t *testing.T, s *Service, err error) {
	t.Helper()
	testkit.Must(t, err)
	s.close()
}

// wantRefused says what the message must have in it.
func wantRefused(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("start: %v; want a refusal that says %q", err, word)
		}
	}
}

// filesIn lists a directory.
func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	testkit.Must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestSecondServiceOnOneDirectory(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	first, err := begin(t, data, nil)
	testkit.Must(t, err)
	_, err = begin(t, data, nil)
	wantRefused(t, err, data, fmt.Sprintf("process %d", os.Getpid()))
	first.close()
	again, err := begin(t, data, nil)
	end(t, again, err)
}

func TestEmptyDatabaseBesideArchives(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s, err := begin(t, data, nil)
	end(t, s, err)
	key, err := os.ReadFile(filepath.Join(data, receiptKeyFile))
	testkit.Must(t, err)
	objects, err := store.OpenFS(filepath.Join(data, "store"))
	testkit.Must(t, err)
	archives, err := catalog.Open(t.Context(), objects, catalog.Options{})
	testkit.Must(t, err)
	_, err = archives.Publish(t.Context(), catalog.Publication{Batches: []catalog.Batch{{ID: "b1", SHA256: "x"}}, Entries: catalog.Entries()})
	testkit.Must(t, err)
	testkit.Must(t, objects.Close())
	s, err = begin(t, data, nil)
	end(t, s, err)

	// The database is lost: with its keys, and with those of a new machine.
	testkit.Must(t, os.Remove(filepath.Join(data, "sheaf.db")))
	_, err = begin(t, data, nil)
	wantRefused(t, err, "sheaf.db", "sheaf restore", "database.fresh=true")
	testkit.Must(t, os.Remove(filepath.Join(data, receiptKeyFile)))
	testkit.Must(t, os.Remove(filepath.Join(data, tokenFile)))
	_, err = begin(t, data, nil)
	wantRefused(t, err, "sheaf restore")
	for _, name := range filesIn(t, data) {
		if name == "sheaf.db" || name == receiptKeyFile || name == tokenFile {
			t.Errorf("the refused start has made %s: a backup could not be restored beside it", name)
		}
	}

	s, err = begin(t, data, map[string]any{"database.fresh": true})
	end(t, s, err)
	s, err = begin(t, data, nil) // once is enough
	end(t, s, err)
	if now, err := os.ReadFile(filepath.Join(data, receiptKeyFile)); err != nil || bytes.Equal(now, key) {
		t.Errorf("the new key: %v", err)
	}
}

// An installation whose settings name the store of another is refused, also before either has
// published, and leaves the store as it was.
func TestStoreOfAnotherInstallation(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for name, settings := range map[string]func(t *testing.T) (one, other map[string]any){
		"directory": func(t *testing.T) (one, other map[string]any) {
			data, copied := t.TempDir(), t.TempDir()
			testkit.Must(t, os.Mkdir(filepath.Join(data, "store"), 0o755))
			testkit.Must(t, os.Symlink(filepath.Join(data, "store"), filepath.Join(copied, "store")))
			return map[string]any{"data": data}, map[string]any{"data": copied}
		},
		"bucket": func(t *testing.T) (one, other map[string]any) {
			o := storetest.StartVersity(t).Options(t)
			with := func() map[string]any {
				return map[string]any{"data": t.TempDir(), "store.kind": "s3", "store.endpoint": o.Endpoint, "store.bucket": o.Bucket, "store.access_key": o.AccessKey, "store.secret_key": o.SecretKey}
			}
			return with(), with()
		},
	} {
		t.Run(name, func(t *testing.T) {
			one, other := settings(t)
			begun := func(settings map[string]any, fresh bool) (*Service, error) {
				all := maps.Clone(settings)
				all["database.fresh"] = fresh
				return begin(t, all["data"].(string), all)
			}
			s, err := begun(one, false)
			end(t, s, err)
			for range 2 {
				_, err = begun(other, false)
				wantRefused(t, err, "settings: store: ", "another installation", "database.fresh=true")
			}
			s, err = begun(one, false)
			end(t, s, err)

			s, err = begun(other, true) // on purpose
			end(t, s, err)
			s, err = begun(other, false)
			end(t, s, err)
			_, err = begun(one, false)
			wantRefused(t, err, "another installation")
		})
	}
}

func TestDeletedReceiptKey(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s, err := begin(t, data, nil)
	end(t, s, err)
	file := filepath.Join(data, receiptKeyFile)
	key, err := os.ReadFile(file)
	testkit.Must(t, err)
	testkit.Must(t, os.Remove(file))
	for range 2 {
		_, err = begin(t, data, nil)
		wantRefused(t, err, data, receiptKeyFile, "backup")
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Fatalf("a key was made: %v", err)
		}
	}
	testkit.Must(t, os.WriteFile(file, key, 0o600))
	s, err = begin(t, data, nil)
	end(t, s, err)
}

func TestDamagedDatabase(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func([]byte){
		"header": func(b []byte) { copy(b, "no database at all") },
		"page":   func(b []byte) { copy(b[len(b)/2:], bytes.Repeat([]byte{0x5a}, 9000)) },
	} {
		data := t.TempDir()
		s, err := begin(t, data, nil)
		end(t, s, err)
		file := filepath.Join(data, "sheaf.db")
		d, err := sql.Open("sqlite", file)
		testkit.Must(t, err)
		_, err = d.Exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
		testkit.Must(t, err)
		testkit.Must(t, d.Close())
		whole, err := os.ReadFile(file)
		testkit.Must(t, err)
		damage(whole)
		testkit.Must(t, os.WriteFile(file, whole, 0o600))
		_, err = begin(t, data, nil)
		t.Log(name, err)
		wantRefused(t, err, file, "restore a backup", "sheaf restore BACKUP --data "+data)
	}
}

// A start waits for PostgreSQL, says so, and goes on when it is there; or ends at the signal, or
// when its time is over.
func TestStartWaitsForPostgres(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	cluster := dbtest.Start(t)
	cluster.Stop()
	cfg := testConfig(t, map[string]any{"data": t.TempDir(), "database.url": cluster.URL, "stop": "1s"})
	waits := make(said, 100)
	ctx, signal := context.WithCancel(t.Context())
	ended := make(chan error)
	start := func(ctx context.Context) {
		s, err := New(ctx, cfg, slog.New(slog.NewTextHandler(waits, nil)))
		if err == nil {
			s.close()
		}
		ended <- err
	}
	go start(ctx)
	waits.await(t, "waiting for it")
	signal()
	if err := testkit.Receive(t, "the end after the signal", ended); err == nil || ctx.Err() == nil {
		t.Errorf("after the signal: %v", err)
	}
	go start(t.Context())
	waits.await(t, "waiting for it")
	cluster.Start(t)
	testkit.Must(t, testkit.Receive(t, "the start", ended))
	cluster.Stop()
	cfg.Database.Wait = 0
	go start(t.Context())
	wantRefused(t, testkit.Receive(t, "the end of the time", ended), "database.wait")
}

// said is a log that tells of its lines.
type said chan string

func (s said) Write(p []byte) (int, error) { s <- string(p); return len(p), nil }

func (s said) await(t *testing.T, word string) {
	t.Helper()
	for line := ""; !strings.Contains(line, word); {
		line = testkit.Receive(t, word, s)
	}
}

func TestDataOfFileAndEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sheaf.yaml")
	testkit.Must(t, os.WriteFile(file, []byte("data: /srv/sheaf\n"), 0o600))
	t.Setenv("SHEAF_DATA", "/tmp/other")
	if _, err := Load(file, nil); err == nil || !strings.Contains(err.Error(), "/srv/sheaf") || !strings.Contains(err.Error(), "/tmp/other") {
		t.Errorf("two directories: %v", err)
	}
	if c, err := Load(file, map[string]any{"data": "/x"}); err != nil || c.Data != "/x" {
		t.Errorf("--data: %q, %v", c.Data, err)
	}
	if c, err := Load("", nil); err != nil || c.Data != "/tmp/other" {
		t.Errorf("no file: %q, %v", c.Data, err)
	}
	t.Setenv("SHEAF_DATA", "/srv/sheaf/")
	if _, err := Load(file, nil); err != nil {
		t.Errorf("the same: %v", err)
	}
}

// TestReadyWithoutDatabase shows that a process that has just become ready needs the database for
// nothing that known accounts read: it may go in the same moment.
func TestReadyWithoutDatabase(t *testing.T) {
	settings := map[string]any{"data": t.TempDir(), "access.offline": "1m"}
	start := func() *Service {
		s, err := New(t.Context(), testConfig(t, settings), slog.New(slog.DiscardHandler))
		testkit.Must(t, err)
		return s
	}
	before := start()
	addAccount(t, before, "alice", "secret")
	before.close()
	s := start()
	defer s.close()
	testkit.Must(t, s.state.db.Close())
	for _, path := range []string{"/v1/hosts", "/v1/changes", "/pub/README"} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.SetBasicAuth("alice", "secret")
		w := httptest.NewRecorder()
		s.router.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// Of two processes with one database, the one whose machine's clock is five minutes off says so at
// its start, at /healthz and in its metrics. Both work: what several processes must agree on goes
// by the database's clock.
func TestClocksApart(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	settings := meteredSettings(t, map[string]any{"database.url": dbtest.Postgres(t)})
	for _, ahead := range []time.Duration{0, 5 * time.Minute, -5 * time.Minute} {
		var log bytes.Buffer
		began := time.Now()
		near := func() time.Duration { // the database's answers cannot have taken longer
			now := time.Now()
			return now.Sub(began) + time.Second
		}
		says := func(text string) bool {
			m := regexp.MustCompile(`clock is (\S+) (ahead of|behind) the`).FindStringSubmatch(text)
			if m == nil {
				return false
			}
			told, err := time.ParseDuration(m[1])
			return err == nil && (m[2] == "behind") == (ahead < 0) && (told-ahead.Abs()).Abs() <= near()
		}
		s, err := New(t.Context(), testConfig(t, settings), slog.New(slog.NewTextHandler(&log, nil)),
			WithClock(func() time.Time { return time.Now().Add(ahead).Truncate(100 * time.Millisecond) }))
		testkit.Must(t, err)
		if warned := strings.Contains(log.String(), "the clock is wrong"); warned != (ahead != 0) || warned && !says(log.String()) {
			t.Errorf("%v: the log says %s", ahead, &log)
		}
		serveUntilEnd(t, s)
		status, h := healthOf(t, s, "")
		if status != http.StatusOK {
			t.Errorf("%v: %d %+v", ahead, status, h)
		}
		found := false
		for _, one := range h.Checks {
			if one.Name == checkClock {
				found = (one.Status == healthDown) == (ahead != 0) && (ahead == 0 || says(one.Detail))
			}
		}
		if !found {
			t.Errorf("%v: %+v", ahead, h.Checks)
		}
		metric, ok := scrape(t, s).Value("sheaf_clock_ahead_seconds")
		now, seen := s.state.clock.Now(), time.Now()
		if !ok || (time.Duration(metric*float64(time.Second))-ahead).Abs() > near() {
			t.Errorf("%v: the metric is %v", ahead, metric)
		}
		if seen.Sub(now).Abs() > near() {
			t.Errorf("%v: the common time is %v", ahead, now)
		}
	}
}
