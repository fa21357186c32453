package httpd_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/serve/httpd"
	"sheaf/serve/servetest"
	"sheaf/test/operatorstest"
)

const often = "http://" + host + "/often"

// newOften returns a site with a page of n versions. Three each are of the same second, under three
// URLs that count as one.
func newOften(t testing.TB, s *servetest.Site, n int) {
	var bare, www []*archive.Record
	for i := range n {
		at := at(22, 1).Add(time.Duration(i/3) * time.Second)
		switch i % 3 {
		case 0:
			www = append(www, servetest.Answer(often, 404, at))
		case 1:
			www = append(www, servetest.Answer(strings.Replace(often, "http:", "https:", 1), 404, at))
		case 2:
			bare = append(bare, servetest.Answer(strings.Replace(often, "www.", "", 1), 404, at))
		}
	}
	s.Publish("20261122", map[string][]*archive.Record{host: www, strings.TrimPrefix(host, "www."): bare})
}

// link is a link of a TimeMap.
type link struct {
	uri   string
	attrs map[string]string
}

// links reads link-format as RFC 6690 has it.
func links(t *testing.T, text string) []link {
	t.Helper()
	var all []link
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		m := linkFormat.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("no link at %.200q", text)
		}
		l := link{m[1], map[string]string{}}
		for _, attr := range strings.Split(strings.TrimPrefix(m[2], ";"), ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(attr), "=")
			l.attrs[name] = strings.Trim(value, `"`)
		}
		all, text = append(all, l), text[len(m[0]):]
	}
	return all
}

func (l link) is(rel string) bool {
	for _, r := range strings.Fields(l.attrs["rel"]) {
		if r == rel {
			return true
		}
	}
	return false
}

// A page of very many versions has an index of TimeMaps (RFC 7089, 5.1.1). A client that follows it
// finds each version once, in order, within the times of its TimeMap.
func TestPagedTimeMap(t *testing.T) {
	testkit.Slow(t)
	s := newSite(t)
	const count = 10_998 // pages of 5,001, as three of a second stay together, again, and of 996
	newOften(t, s.Site, count)
	get := func(path string) string {
		resp, body := s.doText(t, path)
		if resp.StatusCode != 200 {
			t.Fatalf("%s: %s %s", path, resp.Status, body)
		}
		return body
	}
	index := links(t, get("/timemap/link/"+often))
	var pages []link
	for _, l := range index {
		switch {
		case l.is("timemap"):
			pages = append(pages, l)
		case l.is("memento"):
			t.Errorf("the index lists a version: %v", l)
		}
	}
	if len(pages) != 3 || index[0].attrs["rel"] != "original" || index[0].uri != often || !index[2].is("self") || index[2].attrs["from"] != pages[0].attrs["from"] || index[2].attrs["until"] != pages[2].attrs["until"] {
		t.Fatalf("the index: %v", index)
	}
	seen := make(map[string]bool)
	var last, until time.Time
	for i, p := range pages {
		from, _ := time.Parse(http.TimeFormat, p.attrs["from"])
		if !from.After(until) {
			t.Errorf("TimeMap %d begins at %v, the one before ends at %v", i, from, until)
		}
		until, _ = time.Parse(http.TimeFormat, p.attrs["until"])
		others, inPage := 0, 0
		for _, l := range links(t, get(strings.TrimPrefix(p.uri, s.url))) {
			switch at, _ := time.Parse(http.TimeFormat, l.attrs["datetime"]); {
			case l.is("self"):
				if l.uri != p.uri || l.attrs["from"] != p.attrs["from"] || l.attrs["until"] != p.attrs["until"] || l.attrs["type"] != "application/link-format" {
					t.Errorf("TimeMap %d says of itself %v", i, l)
				}
			case l.is("timemap"):
				others++
			case l.is("memento"):
				if at.Before(last) || at.Before(from) || at.After(until) || seen[l.uri] {
					t.Fatalf("in TimeMap %d, from %v until %v: %v, seen: %v", i, from, until, l, seen[l.uri])
				}
				if l.is("first") != (len(seen) == 0) || l.is("last") != (len(seen) == count-1) {
					t.Errorf("version %d is %v", len(seen), l)
				}
				last, seen[l.uri] = at, true
				inPage++
			}
		}
		if others != 2 || inPage > 5_001 {
			t.Errorf("TimeMap %d names %d others and lists %d versions", i, others, inPage)
		}
	}
	if len(seen) != count {
		t.Errorf("%d versions, want %d", len(seen), count)
	}

	var m api.TimeMap
	if err := json.Unmarshal([]byte(get("/timemap/json/"+often)), &m); err != nil || len(m.Index) != 3 || m.Mementos != nil {
		t.Fatalf("%v: %d TimeMaps, versions %v", err, len(m.Index), m.Mementos)
	}
	all := 0
	for _, p := range m.Index {
		var page api.TimeMap
		if err := json.Unmarshal([]byte(get(strings.TrimPrefix(p.URI, s.url))), &page); err != nil || page.Mementos == nil || page.Self != p.URI || len(page.Index) != 3 {
			t.Fatalf("%v: %v", err, page)
		}
		if !page.Mementos.First.Datetime.Equal(p.From) || !page.Mementos.Last.Datetime.Equal(p.Until) {
			t.Errorf("from %v until %v: the first is %v, the last %v", p.From, p.Until, page.Mementos.First, page.Mementos.Last)
		}
		all += len(page.Mementos.List)
	}
	if all != count {
		t.Errorf("%d versions, want %d", all, count)
	}

	// A TimeMap that is fetched later also has what was published meanwhile of its time. There is
	// no TimeMap of a time without versions.
	s.Publish("20261123", map[string][]*archive.Record{host: {servetest.Page(often, "one more", at(22, 1).Add(100*time.Second+time.Millisecond))}})
	again := 0
	for _, l := range links(t, get(strings.TrimPrefix(pages[0].uri, s.url))) {
		if l.is("memento") {
			again++
		}
	}
	if again != 5_002 { // the other one of its second now has an address of its own
		t.Errorf("%d versions in the first TimeMap, want 5002", again)
	}
	if resp, _ := s.do(t, "GET", "jp", "/timemap/link/19990101000000-19991231235959/"+often); resp.StatusCode != 404 {
		t.Errorf("a time without versions: %s", resp.Status)
	}
	for _, path := range []string{"/timemap/link/20261122010000-20261399000000/" + often, "/timemap/link/20261122010000-/" + often} {
		if resp, _ := s.do(t, "GET", "jp", path); resp.StatusCode != 400 && resp.StatusCode != 404 {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}

// BenchmarkTimeMap reads one TimeMap of all of 10^5 versions (or SHEAF_BENCH_MEMENTOS), and reports
// by how much the heap grows: it has the captures of the versions, and no text.
func BenchmarkTimeMap(b *testing.B) {
	n, _ := strconv.Atoi(os.Getenv("SHEAF_BENCH_MEMENTOS"))
	if n == 0 {
		n = 100_000
	}
	s := servetest.New(b, nil)
	s.Account("jp", "always", "jp")
	newOften(b, s, n)
	handler := mux.NewRouter()
	if err := httpd.Register(handler, httpd.Options{
		Library: s.Library, Accounts: s.Accounts, Recorder: s.Log, Gate: operatorstest.Open,
	}); err != nil {
		b.Fatal(err)
	}
	for _, form := range []string{"link", "json"} {
		b.Run(fmt.Sprintf("form=%s/versions=%d", form, n), func(b *testing.B) {
			var peak uint64
			for b.Loop() {
				w := &growth{ResponseWriter: httptest.NewRecorder()}
				runtime.GC()
				runtime.ReadMemStats(&w.start)
				r := httptest.NewRequest("GET", "/timemap/"+form+"/20261122010000-20261231000000/"+often, nil)
				r.SetBasicAuth("jp", "jp")
				handler.ServeHTTP(w, r)
				peak = max(peak, w.most)
				b.SetBytes(w.n)
			}
			b.ReportMetric(float64(peak), "heap-bytes")
		})
	}
}

// growth measures how the heap grows while an answer is written.
type growth struct {
	http.ResponseWriter
	start  runtime.MemStats
	n      int64
	writes int
	most   uint64
}

func (g *growth) Write(p []byte) (int, error) {
	if g.writes++; g.writes%100 == 1 {
		var now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&now)
		g.most = max(g.most, now.HeapAlloc-min(now.HeapAlloc, g.start.HeapAlloc))
	}
	g.n += int64(len(p))
	return len(p), nil
}
