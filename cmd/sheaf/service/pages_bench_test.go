package service

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/internal/db"
	"sheaf/internal/testkit"
)

// manyHosts is how many hosts BenchmarkPagesAtSize has: SHEAF_BENCH_HOSTS, or 20,000.
func manyHosts() int {
	if n, err := strconv.Atoi(os.Getenv("SHEAF_BENCH_HOSTS")); err == nil && n > 0 {
		return n
	}
	return 20_000
}

// hostOf names the i-th host. One in five is in a domain with very many others.
func hostOf(i int) string {
	switch i % 5 {
	case 0:
		return fmt.Sprintf("h%07d.portal%02d.ne.jp", i, i%20)
	case 1:
		return fmt.Sprintf("www.site%07d.jp", i)
	}
	return fmt.Sprintf("www.site%07d.%s.jp", i, []string{"co", "or", "ac"}[i%3])
}

// publishMany publishes one edition with ten records of each host.
func publishMany(b *testing.B, data string, hosts int) {
	objects, err := store.OpenFS(filepath.Join(data, "store"))
	testkit.Must(b, err)
	c, err := catalog.Open(b.Context(), objects, catalog.Options{})
	testkit.Must(b, err)
	batch, now := catalog.Batch{ID: "robot-1", SHA256: strings.Repeat("0", 64)}, time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
	_, err = c.Publish(b.Context(), catalog.Publication{Batches: []catalog.Batch{batch}, Entries: func(yield func(catalog.SegmentEntry, error) bool) {
		for i := range hosts {
			host := hostOf(i)
			sum := sha256.Sum256([]byte(host))
			digest := hex.EncodeToString(sum[:])
			l := catalog.SegmentEntry{
				Host: host, Object: "segments/" + host + "/1.tar.gz", Length: 100_000, IndexOffset: 98_000, IndexLength: 1800, First: now, Last: now.Add(time.Minute),
				Records: 10, Files: 10, SHA256: digest, Batch: batch.ID, BatchSHA256: batch.SHA256, Robot: "robot", Views: map[string]catalog.View{},
			}
			for _, kind := range []string{"members", "single", "warc"} {
				l.Views[kind] = catalog.View{Size: 101_000, SHA256: digest, ETag: `"` + digest[:32] + `"`}
			}
			if !yield(l, nil) {
				return
			}
		}
	}})
	testkit.Must(b, err)
	testkit.Must(b, objects.Close())
}

// addHosts adds the hosts to the database, where one in a hundred waits for a decision, and batches.
func addHosts(b *testing.B, s *Service, hosts int) {
	tx, err := s.state.db.BeginTx(b.Context(), nil)
	testkit.Must(b, err)
	insert, err := tx.PrepareContext(b.Context(), `INSERT INTO hosts (name, state, source, created, grp) VALUES (?1, ?2, '', 0, ?1)`)
	testkit.Must(b, err)
	for i := range hosts {
		state := "accepted"
		if i%100 == 0 {
			state = "pending"
		}
		_, err := insert.ExecContext(b.Context(), hostOf(i), state)
		testkit.Must(b, err)
	}
	for i := range hosts / 10 {
		at := db.Millis(time.Now().Add(-time.Hour)) + int64(i)
		_, err := tx.ExecContext(b.Context(), `INSERT INTO ingest_batches (id, batch, robot, protocol, sha256, size, hosts, state, received_at, entered_at, collected)
			VALUES (?1, ?1, 'robot', 'http', 'x', 1000, 1, 'published', ?2, ?2, 1)`, fmt.Sprint("robot-", i), at)
		testkit.Must(b, err)
	}
	testkit.Must(b, tx.Commit())
}

// cpu is the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPagesAtSize tells the processor time of each page for people, and of a scrape, of a large
// archive: ten records of each host, and one batch in the ledger for ten hosts. With
// SHEAF_BENCH_HOSTS=1000000 it takes some minutes.
func BenchmarkPagesAtSize(b *testing.B) {
	hosts, data := manyHosts(), b.TempDir()
	publishMany(b, data, hosts)
	cfg, err := Load("", map[string]any{
		"data": data, "database.fresh": true, "http.listen": "127.0.0.1:0", "metrics": "", "download.listen": "", "drop.listen": "", "access.anonymous": []string{"jp"},
		"publish.window": "never", "balance.at": "", "balance.during": false,
	})
	testkit.Must(b, err)
	s, err := New(b.Context(), cfg, slog.New(slog.DiscardHandler))
	testkit.Must(b, err)
	b.Cleanup(s.close)
	addHosts(b, s, hosts)
	handler, wide := s.state.monitor.Handler(), "/browse/jp/ne/portal05/"
	for _, path := range []string{
		"/", "/browse/", "/browse/jp/", "/browse/jp/co/", wide, "/find?q=www.site0000001.jp", "/find?q=nowhere.example", "/webmasters", "/account",
		"/board/", "/board/transfers", "/board/batches", "/board/batches?state=published", "/board/robots", "/board/hosts", "/board/hosts?state=accepted",
		"/board/levelling", "/board/releases", "/board/store", "/board/watches", "/board/removals", "/metrics",
	} {
		b.Run(path, func(b *testing.B) {
			var took []time.Duration
			var bytes, status int
			for range 60 {
				before := cpu()
				if path == "/metrics" {
					w := httptest.NewRecorder()
					handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
					bytes, status = w.Body.Len(), w.Code
				} else {
					user := ""
					if strings.HasPrefix(path, "/board") {
						user = "operator"
					}
					w := browse(s, http.MethodGet, path, user, s.OperatorToken(), nil)
					bytes, status = w.Body.Len(), w.Code
				}
				took = append(took, cpu()-before)
			}
			first := took[0]
			took = took[10:] // warm
			slices.Sort(took)
			b.ReportMetric(float64(first.Microseconds())/1000, "first-ms")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(bytes), "bytes")
			b.ReportMetric(float64(status), "status")
			b.ReportMetric(0, "ns/op")
		})
	}
}
