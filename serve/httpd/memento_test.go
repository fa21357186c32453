package httpd_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"sheaf/internal/api"
)

// A TimeGate that redirects (RFC 7089, 4.2.1 with its examples); and its answers for times before
// the first version, after the last one, for no time and for a wrong one (4.5.3).
func TestTimeGate(t *testing.T) {
	s := newPages(t)
	for when, day := range map[string]int{
		"":                              25,
		"Thu, 31 May 2007 20:35:00 GMT": 22,
		"Sun, 22 Nov 2026 14:00:00 GMT": 23,
		"Tue, 24 Nov 2026 01:00:00 GMT": 24,
		"Tue, 24 Nov 2099 01:00:00 GMT": 25,
	} {
		var header []string
		if when != "" {
			header = []string{"Accept-Datetime", when}
		}
		url := page
		if day == 25 {
			url = "https://waseda.ac.jp/d/p.html"
		}
		resp, body := s.do(t, "GET", "jp", "/timegate/"+page, header...)
		h := resp.Header
		if resp.StatusCode != 302 || h.Get("Location") != s.url+ofDay(day, "", url) || h.Get("Vary") != "accept-datetime" || h.Get("Memento-Datetime") != "" || len(body) > 0 {
			t.Errorf("at %q: %s %v", when, resp.Status, h)
		}
		for _, rel := range []string{`rel="original"`, `rel="timemap"; type="application/link-format"; from=`, `rel="first memento"`, `rel="last memento"`} {
			if !strings.Contains(h.Get("Link"), rel) {
				t.Errorf("no %s in %s", rel, h.Get("Link"))
			}
		}
	}
	if resp, body := s.do(t, "GET", "jp", "/timegate/"+page, "Accept-Datetime", "yesterday"); resp.StatusCode != 400 || !strings.Contains(string(body), "yesterday") {
		t.Errorf("a time that is none: %s %s", resp.Status, body)
	}
}

// linkFormat is the grammar of RFC 6690, as far as TimeMaps need it.
var linkFormat = regexp.MustCompile(`^<([^<>"\s]+)>((?:; ?[a-z]+="[^"]*")+)(?:,|$)`)

func TestTimeMap(t *testing.T) {
	s := newPages(t)
	resp, body := s.do(t, "GET", "jp", "/timemap/link/"+page)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/link-format" {
		t.Fatalf("%s %v", resp.Status, resp.Header)
	}
	var got []string
	for line := range strings.Lines(string(body)) {
		m := linkFormat.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			t.Fatalf("%q is no link", line)
		}
		got = append(got, strings.Replace(m[1], s.url, "", 1)+m[2])
	}
	want := []string{
		page + `; rel="original"`,
		"/timegate/" + page + `; rel="timegate"`,
		"/timemap/link/" + page + `; rel="self"; type="application/link-format"; from="Sun, 22 Nov 2026 01:00:00 GMT"; until="Wed, 25 Nov 2026 01:00:00 GMT"`,
		ofDay(22, "", page) + `; rel="first memento"; datetime="Sun, 22 Nov 2026 01:00:00 GMT"`,
		ofDay(23, "", page) + `; rel="memento"; datetime="Mon, 23 Nov 2026 01:00:00 GMT"`,
		ofDay(24, "", page) + `; rel="memento"; datetime="Tue, 24 Nov 2026 01:00:00 GMT"`,
		ofDay(25, "", "https://waseda.ac.jp/d/p.html") + `; rel="last memento"; datetime="Wed, 25 Nov 2026 01:00:00 GMT"`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || strings.HasSuffix(string(body), ",\n") {
		t.Errorf("%s\nwant\n%s", body, strings.Join(want, "\n"))
	}
	_, body = s.do(t, "GET", "jp", "/timemap/json/"+page)
	var m api.TimeMap
	if err := json.Unmarshal(body, &m); err != nil || m.Original != page || m.Mementos == nil || m.Index != nil || len(m.Mementos.List) != 4 || m.Mementos.Last.URI != s.url+ofDay(25, "", "https://waseda.ac.jp/d/p.html") || !m.Mementos.First.Datetime.Equal(at(22, 1)) {
		t.Errorf("%v %s", err, body)
	}
	// Every memento of the list exists, and says that it is one.
	for _, line := range m.Mementos.List {
		resp, _ := s.do(t, "GET", "jp", strings.TrimPrefix(line.URI, s.url))
		if resp.StatusCode != 200 || resp.Header.Get("Memento-Datetime") != line.Datetime.Format(http.TimeFormat) {
			t.Errorf("%s: %s %v", line.URI, resp.Status, resp.Header)
		}
	}
}

// The headers of versions after RFC 7089, with the links of its examples: a version (4.2.1), the
// only one (4.4), a redirect (4.5.4) and an error (4.5.5).
func TestMementoPatterns(t *testing.T) {
	s := newPages(t)
	for path, want := range map[string]struct {
		status   int
		original string
	}{
		ofDay(24, "", page):                                 {200, page},
		ofDay(24, "id_", page):                              {200, page},
		"/web/20261122020000/http://www.waseda.ac.jp/moved": {301, "http://www.waseda.ac.jp/moved"},
		"/web/20261122020000/http://www.waseda.ac.jp/gone":  {404, "http://www.waseda.ac.jp/gone"},
	} {
		for _, method := range []string{"HEAD", "GET"} {
			resp, _ := s.do(t, method, "jp", path, "Accept-Datetime", "Tue, 20 Mar 2001 20:35:00 GMT", "Connection", "close")
			if resp.StatusCode != want.status || resp.Header.Get("Memento-Datetime") == "" || strings.Contains(strings.ToLower(strings.Join(resp.Header.Values("Vary"), ",")), "accept-datetime") {
				t.Errorf("%s %s: %s %v", method, path, resp.Status, resp.Header)
			}
			count := make(map[string]int)
			var mementos []link
			for _, l := range links(t, resp.Header.Get("Link")) {
				for _, rel := range strings.Fields(l.attrs["rel"]) {
					count[rel]++
				}
				switch {
				case l.is("original") && l.uri != want.original, l.is("timegate") && l.uri != s.url+"/timegate/"+want.original:
					t.Errorf("%s: %v", path, l)
				case l.is("timemap") && (l.attrs["type"] != "application/link-format" || l.attrs["from"] == "" || l.attrs["until"] == ""):
					t.Errorf("%s: %v", path, l)
				case l.is("memento"):
					mementos = append(mementos, l)
				}
			}
			if count["original"] != 1 || count["timegate"] != 1 || count["timemap"] != 1 || count["first"] != 1 || count["last"] != 1 {
				t.Errorf("%s: links %v", path, count)
			}
			if want.status == 404 && (len(mementos) != 1 || mementos[0].attrs["rel"] != "first last memento" || mementos[0].uri != s.url+path) {
				t.Errorf("%s is alone: %v", path, mementos)
			}
			for _, l := range mementos { // a link's time is that which its version gives itself (2.2.4)
				if resp, _ := s.do(t, "HEAD", "jp", strings.TrimPrefix(l.uri, s.url)); resp.Header.Get("Memento-Datetime") != l.attrs["datetime"] {
					t.Errorf("%v is of %s", l, resp.Header.Get("Memento-Datetime"))
				}
			}
		}
	}
	// An answer that redirects to a version is not a memento.
	for _, path := range []string{"/timegate/" + page, "/web/2026/" + page} {
		if resp, _ := s.do(t, "HEAD", "jp", path); resp.StatusCode != 302 || resp.Header.Get("Memento-Datetime") != "" || resp.Header.Get("Location") == "" {
			t.Errorf("%s: %s %v", path, resp.Status, resp.Header)
		}
	}
}
