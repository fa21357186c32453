package httpd_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/serve"
	"sheaf/serve/httpd"
	"sheaf/serve/servetest"
)

// BenchmarkCDX asks for one page by its URL, in a host of 30 segments that hold
// SHEAF_BENCH_RECORDS records together (10,000 by default): with an empty cache
// each time (cold), and again (warm). It reports the median and the 99th percentile too.
//
//	SHEAF_BENCH_RECORDS=100000 go test ./serve/httpd -run '^$' -bench CDX -benchtime 200x
func BenchmarkCDX(b *testing.B) {
	const segments = 30
	records := 10_000
	if n, err := strconv.Atoi(os.Getenv("SHEAF_BENCH_RECORDS")); err == nil {
		records = n
	}
	s := servetest.New(b, nil)
	s.Account("all", "always", "*")
	url := func(n int) string { return fmt.Sprintf("http://www.example.jp/dir%d/page%d.html", n%97, n) }
	each := records / segments
	for e := range segments {
		day := time.Date(2026, 9, 1, 3, 0, 0, 0, time.UTC).AddDate(0, 0, e)
		var of []*archive.Record
		for n := range each {
			of = append(of, servetest.Page(url(n), fmt.Sprintf("page %d of day %d", n, e), day.Add(time.Duration(n)*time.Second)))
		}
		s.Publish(day.Format("20060102"), map[string][]*archive.Record{"www.example.jp": of})
	}
	handler := func() http.Handler {
		library, err := serve.NewLibrary(serve.Options{Catalog: s.Catalog, Store: s.Store})
		if err != nil {
			b.Fatal(err)
		}
		router := mux.NewRouter()
		if err := httpd.Register(router, httpd.Options{
			Library: library, Accounts: s.Accounts, Recorder: s.Log, Operator: func(h http.Handler) http.Handler { return h },
		}); err != nil {
			b.Fatal(err)
		}
		return router
	}
	one := func(h http.Handler, n int) {
		r := httptest.NewRequest("GET", "/v1/cdx?url="+url(n), nil)
		r.SetBasicAuth("all", "all")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusOK || w.Body.Len() < segments*100 {
			b.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	measure := func(b *testing.B, handler func() http.Handler) {
		took := make([]time.Duration, 0, b.N)
		for range b.N {
			h := handler()
			n := rand.IntN(each)
			begun := time.Now()
			one(h, n)
			took = append(took, time.Since(begun))
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	}
	one(handler(), 0) // the account's password is believed from now on
	b.Run("cold", func(b *testing.B) { measure(b, handler) })
	warm := handler()
	one(warm, 0)
	b.Run("warm", func(b *testing.B) { measure(b, func() http.Handler { return warm }) })
	b.Run("warm-parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				one(warm, rand.IntN(each))
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	})
}
