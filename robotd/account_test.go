package robotd

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/internal/page"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/robotd/batch"
	"sheaf/robotd/crawl"
)

// One host turns the robot away on some pages, one answers "not found" with 200 and one
// is for sale. None of that is taken for a page, and the batch says so, and what else
// was not collected, by host.
func TestAnswersThatAreNoPages(t *testing.T) {
	web := newSite(t, "127.0.0.51")
	hosts := map[string]string{"soft.test": web.addr, "guarded.test": web.addr, "sold.test": web.addr, "gone.test": "127.0.0.52:1", "back.test": web.addr}
	const menu = "<title>例社</title><ul><li>ホーム<li>製品情報<li>会社案内<li>採用情報<li>お問い合わせ<li>サイトマップ</ul>"
	var links strings.Builder
	for i := range 6 {
		fmt.Fprintf(&links, "<a href=/%d.html>%d</a> ", i, i)
	}
	// Only what is not there looks like the answer to what is not there.
	web.page("soft.test/", "text/html; charset=utf-8", []byte(menu+links.String()))
	web.page("soft.test/0.html", "text/html; charset=utf-8", []byte(menu+"<p>新製品の案内です。来月の初めに発売します。ご期待ください。"))
	web.page("soft.test/1.html", "text/html; charset=utf-8", []byte(menu+"<p>会社の沿革です。昭和二十一年に創業しました。社員は十二人です。"))
	web.fallback("soft.test", answer{http.StatusOK, http.Header{"Content-Type": {"text/html; charset=utf-8"}},
		[]byte(menu + "<p>ご指定の場所には何もございません。ホームからお探しください。<a href=/trap.html>次</a>")})
	web.page("back.test/", "text/html", []byte(links.String()))
	web.page("back.test/0.html", "text/html", []byte("here"))
	web.fallback("back.test", answer{http.StatusFound, http.Header{"Location": {"/"}}, nil})

	web.page("guarded.test/", "text/html", []byte(`<a href=/secret.html>x</a><a href=/private/x.html>x</a><a href=/heavy.html>x</a><a href=/a/`+strings.Repeat("b", 3000)+`>x</a><a href=/own.html>x</a><a href=/paid.html>x</a>`))
	web.page("guarded.test/secret.html", "text/html", []byte(`<title>Just a moment...</title><script src="/cdn-cgi/challenge-platform/h/b/x"></script><a href=/no>x</a>`), "Cf-Mitigated", "challenge")
	web.put("guarded.test/heavy.html", answer{http.StatusServiceUnavailable, http.Header{"Content-Type": {"text/html"}}, []byte("<p>busy")})
	web.put("guarded.test/paid.html", answer{http.StatusPaymentRequired, http.Header{"Crawler-Price": {"USD 0.01"}}, []byte("pay")})
	web.page("guarded.test/own.html", "text/html", []byte(`<meta name=robots content=noarchive>mine`))
	web.robots = "User-agent: *\nDisallow: /private/\n"
	web.page("sold.test/", "text/html", []byte(`<title>sold.test is for sale</title><p>This domain is for sale.<a href=/buy>buy</a>`))

	s := newService(t, "http://soft.test/", "http://guarded.test/", "http://sold.test/", "http://gone.test/", "http://back.test/")
	cfg := testConfig(t, s, hosts)
	cfg.Page.Probe, cfg.Page.Tries, cfg.Interval = true, 2, 100*time.Microsecond
	r, err := New(cfg, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Cycle(t.Context()); err != nil {
		t.Fatal(err)
	}
	status, err := r.status(0)
	if err != nil || len(status.Lost) != 0 || status.Clock == nil {
		t.Errorf("status after the batch: lost %v, clock %v, %v", status.Lost, status.Clock, err)
	}
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	body, other := archive.Page, archive.Response
	wantCells(t, s.cells(0, "soft.test"), map[string]archive.Kind{
		"http://soft.test/": body, "http://soft.test/0.html": body, "http://soft.test/1.html": body,
		"http://soft.test/2.html": other, "http://soft.test/3.html": other, "http://soft.test/4.html": other, "http://soft.test/5.html": other,
	})
	wantCells(t, s.cells(0, "guarded.test"), map[string]archive.Kind{
		"http://guarded.test/": body, "http://guarded.test/secret.html": other, "http://guarded.test/heavy.html": other, "http://guarded.test/paid.html": other,
	})
	wantCells(t, s.cells(0, "sold.test"), map[string]archive.Kind{"http://sold.test/": other})

	m := s.all()[0].manifest
	got := make(map[string]wire.Coverage)
	for _, h := range m.Coverage {
		slices.SortFunc(h.URLs, func(a, b wire.CoveredURL) int { return strings.Compare(a.URL, b.URL) })
		got[h.Host] = h
	}
	urls := func(pairs ...string) (list []wire.CoveredURL) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, wire.CoveredURL{URL: pairs[i], Why: pairs[i+1]})
		}
		return list
	}
	counts := func(pairs ...any) map[string]int64 {
		m := make(map[string]int64)
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i].(string)] = int64(pairs[i+1].(int))
		}
		return m
	}
	for _, want := range []wire.Coverage{
		{Host: "soft.test", Collected: 3, Answers: counts("200", 4), Marked: counts("soft404", 4), URLs: urls(
			"http://soft.test/2.html", "marked soft404", "http://soft.test/3.html", "marked soft404",
			"http://soft.test/4.html", "marked soft404", "http://soft.test/5.html", "marked soft404")},
		{Host: "back.test", Collected: 2, Answers: counts("302", 5), Marked: counts("soft404", 5), URLs: urls(
			"http://back.test/1.html", "marked soft404", "http://back.test/2.html", "marked soft404", "http://back.test/3.html", "marked soft404",
			"http://back.test/4.html", "marked soft404", "http://back.test/5.html", "marked soft404")},
		{Host: "guarded.test", Collected: 1, Answers: counts("200", 1, "402", 1, "503", 1), Marked: counts("blocked", 1, "priced", 1), Refused: 1, Withheld: 1,
			Failed: counts("503", 1), Cut: counts("length", 1), More: true, URLs: urls(
				"http://guarded.test/heavy.html", "failed 503", "http://guarded.test/own.html", "withheld noarchive",
				"http://guarded.test/paid.html", "marked priced",
				"http://guarded.test/private/x.html", "refused robots.txt", "http://guarded.test/secret.html", "marked blocked")},
		{Host: "sold.test", Answers: counts("200", 1), Marked: counts("parked", 1), URLs: urls("http://sold.test/", "marked parked")},
		{Host: "gone.test", Left: 1, LeftWhy: "host"},
	} {
		if !reflect.DeepEqual(got[want.Host], want) {
			t.Errorf("%+v\nwant\n%+v", got[want.Host], want)
		}
	}
	if m.Clock == nil || m.Clock.OffsetMS < -1500 || m.Clock.OffsetMS > 1500 || m.Clock.ErrorMS > 3000 {
		t.Errorf("clock %+v", m.Clock)
	}
	if n := web.seen("soft.test/trap.html") + web.seen("sold.test/buy") + web.seen("guarded.test/no"); n != 0 {
		t.Errorf("%d links of answers that are no pages were followed", n)
	}
}

// A host gives its page only to visitors with a session, and sends those without one
// back with another each time: the page is taken, once, and no session is followed on.
func TestSessionsByRedirect(t *testing.T) {
	web := newSite(t, "127.0.0.53")
	to := "/p.html;jsessionid=0A1B2C3D"
	web.page("www.s.test/", "text/html", []byte(`<a href=/p.html;jsessionid=FFEE>p</a><a href=/p.html?PHPSESSID=1>p</a>`))
	web.put("www.s.test/p.html", answer{http.StatusFound, http.Header{"Location": {to}}, nil})
	web.page("www.s.test"+to, "text/html", []byte(`<a href=/p.html;jsessionid=0A1B2C3D>again</a><a href="/q.html?a=1&amp;sid=1a2b3c4d5e6f7a8b">q</a>`))
	web.page("www.s.test/q.html?a=1", "text/html", []byte("q"))
	s := newService(t, "http://www.s.test/")
	r, err := New(testConfig(t, s, map[string]string{"www.s.test": web.addr}), testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Cycle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCells(t, s.cells(0, "www.s.test"), map[string]archive.Kind{
		"http://www.s.test/": archive.Page, "http://www.s.test/p.html": archive.Response,
		"http://www.s.test" + to: archive.Page, "http://www.s.test/q.html?a=1": archive.Page,
	})
}

// What the window leaves no time for is accounted for.
func TestLeftByTheWindow(t *testing.T) {
	s := newService(t, "http://www.w.test/", "http://www.w.test/2.html")
	cfg := testConfig(t, s, map[string]string{"www.w.test": "127.0.0.54:1"})
	hour := time.Now().UTC().Hour()
	cfg.Window = fmt.Sprintf("%02d:00-%02d:00 UTC", (hour+3)%24, (hour+4)%24)
	r, err := New(cfg, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.Cycle(ctx) }()
	testkit.Until(t, "a host that waits for the window", func() bool { return r.manners.Gate.Len() > 0 })
	cancel()
	if err := <-ended; err == nil {
		t.Fatal("the cycle ended well, although it was stopped")
	}
	report, err := batch.ReadReport(r.path("coverage.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	want := []wire.Coverage{{Host: "www.w.test", Left: 2, LeftWhy: "window"}}
	if got := report.Hosts(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// spooledCoverage is what the manifests in the spool say of a host, and the last of them for
// levels.
func spooledCoverage(t *testing.T, r *Robot, host string) (sum wire.Coverage) {
	t.Helper()
	spool, err := r.records.Batches.Spool()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range spool {
		m, err := wire.PeekManifest(b.Signed)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range m.Coverage {
			if h.Host == host {
				sum.Collected, sum.Unchanged = sum.Collected+h.Collected, sum.Unchanged+h.Unchanged
				sum.Left, sum.LeftWhy, sum.Later, sum.Truncated = h.Left, h.LeftWhy, h.Later, h.Truncated
			}
		}
		if err := r.records.Batches.Remove(b.ID); err != nil {
			t.Fatal(err)
		}
	}
	return sum
}

// TestEveryKnownPageIsAccountedFor: a night has room for some 60 of 201 pages. Each night, what was
// visited, what the window closed before, and what was put off to another night are together all
// that is known.
func TestEveryKnownPageIsAccountedFor(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const days, pages = 5, 201 // with the top page
	c := newChanging(make([]float64, pages-1), 0, 0)
	var put []int64
	nights(t, tightConfig(t), days, c.ServeHTTP, func(r *Robot, day int) {
		got := spooledCoverage(t, r, "www.a.test")
		all := got.Collected + got.Unchanged + got.Left + got.Later
		if all != pages {
			t.Errorf("night %d accounts for %d of %d pages: %+v", day+1, all, pages, got)
		}
		if got.Left > 0 && got.LeftWhy != "window" {
			t.Errorf("night %d: %d are left for want of %q", day+1, got.Left, got.LeftWhy)
		}
		put = append(put, got.Later)
		st, err := r.status(0)
		if err != nil || st.Coverage == nil || st.Coverage.Pages != got.Collected || st.Coverage.Unchanged != got.Unchanged ||
			st.Coverage.Left != got.Left || st.Coverage.Later != got.Later {
			t.Errorf("night %d: the status says %+v, the batch %+v, %v", day+1, st.Coverage, got, err)
		}
	})
	if put[len(put)-1] < pages/2 {
		t.Errorf("put off by night: %v; when all are known most must be", put)
	}
}

// TestPutOffOverRestart: a robot that starts anew in the middle of its night still knows what it
// had put off.
func TestPutOffOverRestart(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	c := newChanging(make([]float64, 200), 0, 0)
	cfg := tightConfig(t)
	nights(t, cfg, 6, c.ServeHTTP, func(r *Robot, day int) {
		spooledCoverage(t, r, "www.a.test")
		if day < 5 {
			return
		}
		time.Sleep(time.Until(nextCycle(t, r)))
		for _, long := range []time.Duration{5 * time.Minute, time.Hour} { // it is stopped within the window, and goes on
			ctx, stop := context.WithTimeout(t.Context(), long)
			err := r.Cycle(ctx)
			stop()
			if long == time.Hour && err != nil {
				t.Fatal(err)
			}
		}
		got := spooledCoverage(t, r, "www.a.test")
		if all := got.Collected + got.Unchanged + got.Left + got.Later; all != 201 || got.Later == 0 {
			t.Errorf("after a restart %d of 201 pages are accounted for: %+v", all, got)
		}
	})
}

// TestNoLinkIsLostSilently: links beyond what is taken of a page, a sitemap or for the archive
// stand in the batch's account, and a sitemap that is longer than a page may be is read to its end.
func TestNoLinkIsLostSilently(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const entries, tooMany = 15_000, 3
	web := newSite(t, "127.0.0.53")
	var body, sitemap bytes.Buffer
	for i := range page.MaxLinks + tooMany {
		fmt.Fprintf(&body, "<a href=p%d>", i)
	}
	fmt.Fprint(&sitemap, "<urlset>")
	for i := range entries {
		fmt.Fprintf(&sitemap, "<url><loc>http://www.cut.test/s%d</loc>%700s</url>", i, "")
	}
	fmt.Fprint(&sitemap, "</urlset>")
	if sitemap.Len() <= page.MaxBytes {
		t.Fatalf("the sitemap has %d bytes, which a page may have", sitemap.Len())
	}
	web.page("www.cut.test/", "text/html", body.Bytes())
	web.page("www.cut.test/sitemap.xml", "application/xml", sitemap.Bytes())
	web.robots = "Sitemap: http://www.cut.test/sitemap.xml\n"
	s := newService(t, "http://www.cut.test/")
	cfg := testConfig(t, s, map[string]string{"www.cut.test": web.addr})
	cfg.Page.MaxDepth, cfg.Links.Record = 0, true // the links are found, and not visited
	r, err := New(cfg, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Cycle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := s.batches[0].manifest.Coverage[0]
	want := map[string]int64{
		"depth": page.MaxLinks + entries, page.CutLinks: tooMany, crawl.NotRecorded: page.MaxLinks + entries - 2*1000,
	}
	if got.Collected != 2 || !maps.Equal(got.Cut, want) {
		t.Errorf("%d pages, cut %v, want %v", got.Collected, got.Cut, want)
	}
}
