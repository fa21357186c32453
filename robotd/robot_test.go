package robotd

import (
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"golang.org/x/text/encoding/japanese"

	"sheaf/archive"
	"sheaf/robotd/control"
)

// Two hosts on one address and one on another, in the encodings of old Japanese
// pages; a second day on which little has changed.
func TestTwoDays(t *testing.T) {
	one, two := newSite(t, "127.0.0.11"), newSite(t, "127.0.0.12")
	hosts := map[string]string{"www.a.test": one.addr, "www.b.test": one.addr, "www.c.test": two.addr}
	sjis, err := japanese.ShiftJIS.NewEncoder().String(`<meta charset=x-sjis><title>表</title><a href="表.html?q=日">次</a><img src=a.png><a href="http://www.b.test/">b</a>`)
	if err != nil {
		t.Fatal(err)
	}
	jis, err := japanese.ISO2022JP.NewEncoder().String(`<title>日本</title><a href="/second.html">二</a><a href=http://elsewhere.test:8080/deep/page>外</a>`)
	if err != nil {
		t.Fatal(err)
	}
	one.page("www.a.test/", "text/html", []byte(sjis), "ETag", `"v1"`, "Content-Usage", "train-ai=n")
	one.page("www.a.test/%E8%A1%A8.html?q=%93%FA", "text/html", []byte("reached"))
	one.page("www.a.test/a.png", "image/png", []byte("\x89PNG"))
	one.page("www.b.test/", "text/html; charset=iso-2022-jp", []byte(jis))
	one.page("www.b.test/second.html", "text/html", []byte("<meta name=robots content=noindex><a href=/private/x.html>x</a><a href=/moved>m</a><a href=/missing>m</a><a href=http://www..broken.test/>b</a>"))
	one.put("www.b.test/moved", answer{http.StatusFound, http.Header{"Location": {"http://www.c.test/arrived"}}, nil})
	one.robots = "User-agent: *\nDisallow: /private/\nContent-Usage: search=y\n"
	two.tree("www.c.test", 30)
	two.page("www.c.test/arrived", "text/html", []byte("<meta name=robots content=noarchive>kept nowhere"))

	s := newService(t, "http://www.a.test/", "http://www.b.test/", "http://www.c.test/")
	s.breaks = 1
	r, err := New(testConfig(t, s, hosts), testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	day := func() {
		t.Helper()
		if err := r.Cycle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	day()
	wantCells(t, s.cells(0, "www.a.test"), map[string]archive.Kind{
		"http://www.a.test/": archive.Page, "http://www.a.test/%E8%A1%A8.html?q=%93%FA": archive.Page, "http://www.a.test/a.png": archive.Page,
	})
	wantCells(t, s.cells(0, "www.b.test"), map[string]archive.Kind{
		"http://www.b.test/": archive.Page, "http://www.b.test/second.html": archive.Page,
		"http://www.b.test/moved": archive.Response, "http://www.b.test/missing": archive.Response,
	})
	wantPreferences(t, s)
	if n := len(s.cells(0, "www.c.test")); n != 30 {
		t.Errorf("%d pages of www.c.test arrived, want 30", n)
	}
	if one.seen("www.b.test/private/x.html") != 0 || two.seen("www.c.test/arrived") != 1 {
		t.Error("robots.txt was not obeyed, or the redirect not followed")
	}
	if !slices.Equal(s.found, []string{"http://elsewhere.test:8080/", "http://elsewhere.test:8080/deep/page"}) {
		t.Errorf("hosts found: %q", s.found)
	}
	if got := s.loggedURLs()["http://www.a.test/"]; got != 1 {
		t.Errorf("the log names the top page %d times", got)
	}

	one.page("www.b.test/second.html", "text/html", []byte("changed"))
	day()
	wantCells(t, s.cells(1, "www.a.test"), map[string]archive.Kind{
		"http://www.a.test/": archive.Revisit, "http://www.a.test/%E8%A1%A8.html?q=%93%FA": archive.Revisit, "http://www.a.test/a.png": archive.Revisit,
	})
	wantCells(t, s.cells(1, "www.b.test"), map[string]archive.Kind{
		"http://www.b.test/": archive.Revisit, "http://www.b.test/second.html": archive.Page,
	})
	for url, c := range s.cells(1, "www.c.test") {
		if first := s.cells(0, "www.c.test")[url]; c.Kind != archive.Revisit || !c.RefersDate.Equal(first.Time.Truncate(time.Second)) && !c.RefersDate.Equal(first.Time) {
			t.Errorf("%s: %v that refers to %v; the full copy is of %v", url, c.Kind, c.RefersDate, first.Time)
		}
	}
	for _, site := range []*site{one, two} {
		if site.overlap || site.gap < interval {
			t.Errorf("%s: two at once: %t; shortest gap %v, want at least %v", site.addr, site.overlap, site.gap, interval)
		}
	}
	if left, err := r.records.Batches.Spool(); err != nil || len(left) > 0 {
		t.Errorf("the spool holds %v, %v after the receipts", left, err)
	}
}

func wantCells(t *testing.T, got map[string]archive.Cell, want map[string]archive.Kind) {
	t.Helper()
	for url, kind := range want {
		if c, ok := got[url]; !ok || c.Kind != kind {
			t.Errorf("%s: %v (there: %t), want %v", url, c.Kind, ok, kind)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d cells, want %d: %q", len(got), len(want), slices.Sorted(maps.Keys(got)))
	}
}

// wantPreferences checks what the first batch says of the wishes of the sites' owners.
func wantPreferences(t *testing.T, s *service) {
	t.Helper()
	for host, want := range map[string]archive.Cell{
		"www.a.test": {Kind: archive.Page, Preferences: "content-usage=search=y"},
		"www.b.test": {Kind: archive.Page, Preferences: "content-usage=search=y"},
		"www.c.test": {Kind: archive.Page},
	} {
		got := s.batches[0].rules[host]
		if len(got) != 1 || got[0].Kind != want.Kind || got[0].Preferences != want.Preferences {
			t.Errorf("robots.txt of %s: %+v, want %+v", host, got, want)
		}
	}
	a, b := s.cells(0, "www.a.test"), s.cells(0, "www.b.test")
	for url, want := range map[string]string{
		"http://www.a.test/": "content-usage=train-ai=n", "http://www.a.test/a.png": "", "http://www.b.test/second.html": "robots=noindex",
	} {
		if got := a[url].Preferences + b[url].Preferences; got != want {
			t.Errorf("%s asks %q, want %q", url, got, want)
		}
	}
}

func TestManagerAwayAndListChanges(t *testing.T) {
	a := newSite(t, "127.0.0.13")
	hosts := map[string]string{"www.a.test": a.addr, "www.b.test": a.addr}
	a.tree("www.a.test", 3)
	a.tree("www.b.test", 3)
	s := newService(t, "http://www.a.test/", "http://www.b.test/")
	cfg := testConfig(t, s, hosts)
	r, err := New(cfg, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Cycle(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.away = true
	s.mu.Unlock()
	if err := r.Cycle(t.Context()); err != nil {
		t.Fatalf("cycle with the manager away: %v", err)
	}
	s.mu.Lock()
	s.away, s.quarantine = false, true
	s.mu.Unlock()
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The first batch was refused, so the revisits in the second refer to
	// nothing that was published; from now on the pages are taken in full.
	if err := r.Cycle(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.assign("http://www.a.test/")
	if err := r.Cycle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.assign("http://www.a.test/", "http://www.b.test/")
	if err := r.Cycle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for batch, want := range []map[string]archive.Kind{
		{"www.a.test": archive.Page, "www.b.test": archive.Page},       // quarantined
		{"www.a.test": archive.Revisit, "www.b.test": archive.Revisit}, // manager away
		{"www.a.test": archive.Page, "www.b.test": archive.Page},       // after the quarantine
		{"www.a.test": archive.Revisit},                                // b is another's
		{"www.a.test": archive.Revisit, "www.b.test": archive.Page},    // b came back
	} {
		for host := range hosts {
			cells := s.cells(batch, host)
			kind, ok := want[host]
			if ok != (len(cells) == 3) {
				t.Errorf("batch %d holds %d pages of %s", batch, len(cells), host)
			}
			for url, c := range cells {
				if c.Kind != kind {
					t.Errorf("batch %d: %s is a %v, want %v", batch, url, c.Kind, kind)
				}
			}
		}
	}
	monitor := control.NewMonitor(cfg.DataDir)
	status, running, err := monitor.Status(t.Context(), 0)
	if err != nil || !running || status.Robot != "r1" || status.Cycle != 5 || status.Hosts != 2 {
		t.Errorf("status: %+v, %t, %v", status, running, err)
	}
}
