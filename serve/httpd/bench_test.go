package httpd_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/urlindex"
	"sheaf/serve/httpd"
	"sheaf/serve/reading"
	"sheaf/serve/servetest"
	"sheaf/test/operatorstest"
)

// benchSegments is the number of segments of each host, benchEach that of its records.
const benchSegments, benchEach = 30, 9990

// BenchmarkCDX asks for one page by its URL among SHEAF_BENCH_RECORDS records (10,000 by default),
// of hosts of 30 segments and about 10,000 records each, without the URL index (segments) and with
// it (index), in turn: by a node that has just started (start: it opens the catalog too), with
// empty caches each time (cold), and again and again (warm). It reports the median and the 99th
// percentile, and what a request costs of CPU.
//
//	SHEAF_BENCH_RECORDS=1000000 go test ./serve/httpd -run '^$' -bench CDX -benchtime 200x
func BenchmarkCDX(b *testing.B) {
	s := servetest.New(b, nil)
	s.Account("all", "always", "*")
	hosts := max(1, servetest.Number("SHEAF_BENCH_RECORDS", 10_000)/benchEach)
	host := func(n int) string { return fmt.Sprintf("www.h%d.example.jp", n) }
	url := func(h, n int) string { return fmt.Sprintf("http://%s/dir%d/page%d.html", host(h), n%97, n) }
	const pages = benchEach / benchSegments
	for e := range benchSegments {
		day := time.Date(2026, 9, 1, 3, 0, 0, 0, time.UTC).AddDate(0, 0, e)
		edition := make(map[string][]*archive.Record)
		for h := range hosts {
			var of []*archive.Record
			for n := range pages {
				of = append(of, servetest.Page(url(h, n), fmt.Sprintf("page %d of day %d", n, e), day.Add(time.Duration(n)*time.Second)))
			}
			edition[host(h)] = of
		}
		s.Publish(day.Format("20060102"), edition)
	}
	begun := time.Now()
	s.Index()
	b.Logf("%d records of %d hosts indexed in %v", hosts*benchEach, hosts, time.Since(begun).Round(time.Millisecond))

	node := func(index, start bool) http.Handler {
		opt := reading.Options{Catalog: s.Catalog, Store: s.Store}
		if start {
			var err error
			if opt.Catalog, err = catalog.Open(b.Context(), s.Store, catalog.Options{}); err != nil {
				b.Fatal(err)
			}
		}
		if index {
			opt.URLs = urlindex.NewReader(s.Store, urlindex.ReaderOptions{Lag: 2 * time.Second})
		}
		library, err := reading.New(opt)
		if err != nil {
			b.Fatal(err)
		}
		router := mux.NewRouter()
		if err := httpd.Register(router, httpd.Options{
			Library: library, Accounts: s.Accounts, Recorder: s.Log, Gate: operatorstest.Open,
		}); err != nil {
			b.Fatal(err)
		}
		return router
	}
	one := func(h http.Handler) {
		r := httptest.NewRequest("GET", "/v1/cdx?url="+url(rand.IntN(hosts), rand.IntN(pages)), nil)
		r.SetBasicAuth("all", "all")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusOK || w.Body.Len() < benchSegments*100 {
			b.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	one(node(false, false)) // the account's password is believed from now on
	for _, how := range []string{"segments", "index"} {
		index := how == "index"
		b.Run("start/"+how, func(b *testing.B) { measure(b, func() { one(node(index, true)) }) })
		b.Run("cold/"+how, func(b *testing.B) { measure(b, func() { one(node(index, false)) }) })
		warm := node(index, false)
		b.Run("warm/"+how, func(b *testing.B) { measure(b, func() { one(warm) }) })
		b.Run("parallel/"+how, func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					one(warm)
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}

// measure reports how long a call takes, and its CPU time, user and system, of the whole process.
func measure(b *testing.B, call func()) {
	took := make([]time.Duration, 0, b.N)
	before := cpu(b)
	for range b.N {
		begun := time.Now()
		call()
		took = append(took, time.Since(begun))
	}
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
