package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sheaf/archive/naming"
	"sheaf/internal/testkit"
	"sheaf/serve/servetest"
	"sheaf/ui"
)

// cpu is the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak returns the largest memory that the process has had since forgetPeak, in MiB.
func peak(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	testkit.Must(b, err)
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	kib := 0
	_, err = fmt.Sscan(string(rest), &kib)
	testkit.Must(b, err)
	return float64(kib) / 1024
}

func forgetPeak(b *testing.B) {
	debug.FreeOSMemory()
	testkit.Must(b, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0))
}

// measured is a page, or a kind of page of which a visitor sees any.
type measured struct {
	name   string
	path   func() string
	status int // 0: 200
}

// asked lists what BenchmarkPagesAtSize measures.
func (l large) asked() (all []measured) {
	for _, path := range []string{
		"/", "/browse/", "/browse/jp/", "/browse/jp/co/", "/browse/jp/co/s+/", "/browse/jp/ne/portal05/", "/webmasters", "/account",
		"/browse/jp/co/daily/www/", "/browse/jp/co/vast/www/", "/pub/jp/", "/pub/jp/co/", "/pub/jp/co/daily/www/", "/v1/hosts", "/v1/editions", "/v1/changes",
		"/board/", "/board/transfers", "/board/batches", "/board/batches?state=published", "/board/robots", "/board/hosts", "/board/hosts?state=accepted",
		"/board/levelling", "/board/releases", "/board/store", "/board/watches", "/board/removals", "/metrics",
	} {
		all = append(all, measured{name: path, path: func() string { return path }})
	}
	random := rand.New(rand.NewPCG(1, 2))
	host := func() string { return hostOf(random.IntN(l.hosts)) }
	small := func() string { return pageOf(smallHost, random.IntN(pagesEach)) }
	stamp := func(last int) string {
		return l.day(l.editions - 1 - random.IntN(min(last, l.editions))).Format("20060102150405")
	}
	return append(all,
		measured{"find a host", func() string { return "/find?q=" + host() }, http.StatusSeeOther},
		measured{"find nothing", func() string { return "/find?q=nowhere.example" }, http.StatusNotFound},
		measured{"host", func() string { return "/browse/" + naming.HostPath(hostOf(l.hosts+random.IntN(sampled))) + "/" }, 0},
		measured{"host of 30 editions", func() string { return "/browse/" + naming.HostPath(smallHost) + "/" }, 0},
		measured{"page, rewritten", func() string { return "/web/" + stamp(30) + "mp_/" + small() }, 0},
		measured{"page with banner", func() string { return "/web/" + stamp(30) + "/" + small() }, 0},
		measured{"page as its bytes", func() string { return "/web/" + stamp(30) + "id_/" + small() }, 0},
		measured{"page of the vast host", func() string {
			n := random.IntN(l.pages)
			at := l.day(l.editions - 1).Add(time.Duration(n) * time.Millisecond)
			return "/web/" + at.Format("20060102150405") + "id_/" + pageOf(vastHost, n)
		}, 0},
		measured{"30 versions", func() string { return "/web/*/" + small() }, 0},
		measured{"versions in each edition", func() string { return "/web/*/" + pageOf(dailyHost, random.IntN(5)) }, 0},
		measured{"diff", func() string {
			n := random.IntN(min(29, l.editions-1))
			first := l.day(l.editions - 2 - n)
			return "/diff/" + first.Format("20060102150405") + "/" + first.AddDate(0, 0, 1).Format("20060102150405") + "/" + small()
		}, 0},
		measured{"cdx, one URL", func() string { return "/v1/cdx?url=" + pageOf(host(), random.IntN(pagesEach)) }, 0},
		measured{"cdx, a URL of each edition", func() string { return "/v1/cdx?url=" + pageOf(dailyHost, random.IntN(5)) }, 0},
		measured{"cdx, URLs of a host", func() string { return "/v1/cdx?url=http://" + host() + "/dir*" }, 0},
		measured{"cdx, 1,000 of a domain", func() string {
			return "/v1/cdx?limit=1000&matchType=domain&url=" + []string{"co.jp", "jp", "portal05.ne.jp"}[random.IntN(3)]
		}, 0},
		measured{"cdx, 1,000 of the vast host", func() string { return "/v1/cdx?limit=1000&url=http://" + vastHost + "/*" }, 0},
		measured{"coverage", func() string { return "/v1/coverage?url=" + pageOf(host(), random.IntN(pagesEach)) }, 0},
	)
}

// BenchmarkPagesAtSize tells the processor time and the time by the clock of each page for people,
// of queries, and of a scrape, of a large archive (large.build): SHEAF_BENCH_HOSTS hosts (20,000)
// of ten records each, one host with SHEAF_BENCH_EDITIONS editions (100) and one with
// SHEAF_BENCH_PAGES pages (2,000), and one batch in the ledger for ten hosts. In full it takes 3.6
// minutes of CPU. With -v it tells the memory, too:
//
//	SHEAF_BENCH_HOSTS=1000000 SHEAF_BENCH_EDITIONS=1000 SHEAF_BENCH_PAGES=100000 go test ./cmd/sheaf/service -v -run '^$' -bench PagesAtSize -benchtime 1x
func BenchmarkPagesAtSize(b *testing.B) {
	l := large{servetest.Number("SHEAF_BENCH_HOSTS", 20_000), servetest.Number("SHEAF_BENCH_EDITIONS", 100), servetest.Number("SHEAF_BENCH_PAGES", 2000)}
	cfg, err := Load("", map[string]any{
		"data": l.build(b), "database.fresh": true, "http.listen": "127.0.0.1:0", "metrics": "", "download.listen": "", "drop.listen": "", "access.anonymous": []string{"jp"},
		"publish.window": "never", "balance.at": "", "balance.during": false,
	})
	testkit.Must(b, err)
	cfg.Login.Passwords = servetest.Cheap
	s, err := New(b.Context(), cfg, slog.New(slog.DiscardHandler))
	testkit.Must(b, err)
	b.Cleanup(s.close)
	addHosts(b, s, l.hosts)
	addAccount(b, s, "reader", "reader's password")
	testkit.Eventually(b, "all hosts are counted", func() error {
		var front ui.Front
		r := httptest.NewRecorder()
		s.router.ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/", nil))
		if err := json.Unmarshal(r.Body.Bytes(), &front); err != nil || front.Hosts < int64(l.hosts) {
			return fmt.Errorf("%d hosts: %w", front.Hosts, err)
		}
		return nil
	})
	forgetPeak(b)
	for _, m := range l.asked() {
		b.Run(m.name, func(b *testing.B) { s.measurePage(b, m) })
	}
	b.Logf("the largest memory while pages were made: %.0f MiB", peak(b))
}

// measurePage asks for a page some times and reports the median and the 99th percentile.
func (s *Service) measurePage(b *testing.B, m measured) {
	const cold, warm = 10, 100
	var took, used []float64
	size := 0
	for range cold + warm {
		path := m.path()
		began, before := time.Now(), cpu()
		var w *httptest.ResponseRecorder
		switch {
		case path == "/metrics":
			w = httptest.NewRecorder()
			s.state.monitor.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		case path == "/account":
			w = browse(s, http.MethodGet, path, "reader", "reader's password", nil)
		case strings.HasPrefix(path, "/board"):
			w = browse(s, http.MethodGet, path, "operator", s.OperatorToken(), nil)
		default:
			w = browse(s, http.MethodGet, path, "", "", nil)
		}
		took, used = append(took, time.Since(began).Seconds()*1000), append(used, (cpu()-before).Seconds()*1000)
		if w.Code != max(m.status, http.StatusOK) {
			b.Fatalf("%s: %d %.300s", path, w.Code, w.Body)
		}
		size = max(size, w.Body.Len())
	}
	b.ReportMetric(used[0], "first-cpu-ms")
	for unit, values := range map[string][]float64{"ms": took[cold:], "cpu-ms": used[cold:]} {
		slices.Sort(values)
		b.ReportMetric(values[warm/2], "p50-"+unit)
		b.ReportMetric(values[warm*99/100], "p99-"+unit)
	}
	b.ReportMetric(float64(size), "bytes")
	b.ReportMetric(0, "ns/op")
}
