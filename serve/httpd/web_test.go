package httpd_test

import (
	"bytes"
	"compress/gzip"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/encoding/japanese"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/servetest"
)

const (
	page  = "http://www.waseda.ac.jp/d/p.html"
	prose = "日本語のページです。漢字かな交じり文で、カタカナも混ぜて、文字コードの判別に足りる長さにしてあります。"
)

func at(day, hour int) time.Time { return time.Date(2026, 11, day, hour, 0, 0, 0, time.UTC) }

// answer returns a record with the given header.
func answer(kind archive.Kind, url, head, body string, at time.Time) *archive.Record {
	return &archive.Record{Kind: kind, URL: url, Time: at, HTTP: []byte(strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n"), Body: strings.NewReader(body)}
}

// newPages returns a site with versions of four days.
func newPages(t *testing.T) site {
	s := newSite(t)
	sjis, err := japanese.ShiftJIS.NewEncoder().String("<html><title>題</title><body><p>" + prose + "<a href='x?q=語'>表</a></body></html>")
	if err != nil {
		t.Fatal(err)
	}
	html := func(url, body string, at time.Time) *archive.Record { return servetest.Page(url, body, at) }
	first := `<html><head><title>News</title></head><body><p>Monday</p><a href="/next.html">n</a><img src="i.gif"></body></html>`
	second := strings.Replace(first, "Monday", "Tuesday", 1)
	s.Publish("20261122", map[string][]*archive.Record{host: {
		html(page, first, at(22, 1)),
		html("http://www.waseda.ac.jp/sjis.html", sjis, at(22, 1)),
		answer(archive.Page, "http://www.waseda.ac.jp/d/i.gif", "HTTP/1.1 200 OK\nContent-Type: image/gif", "\xff\xfeGIF89a", at(22, 1)),
		html("http://www.waseda.ac.jp/frames.html", `<html><title>F</title><frameset cols="1,2"><frame src=a.html><frame src=b.html></frameset></html>`, at(22, 1)),
		answer(archive.Response, "http://www.waseda.ac.jp/moved", "HTTP/1.1 301 Moved\nLocation: /d/p.html?a=b#c", "moved", at(22, 2)),
		answer(archive.Response, "http://www.waseda.ac.jp/app", "HTTP/1.1 302 Found\nLocation: itunes:x", "", at(22, 2)),
		answer(archive.Response, "http://www.waseda.ac.jp/gone", "HTTP/1.1 404 Not Found\nContent-Type: text/html\nSet-Cookie: a=b", "<body>no such page", at(22, 2)),
		answer(archive.Page, "http://www.waseda.ac.jp/evil", "HTTP/1.1 200 OK\nContent-Type: text/html\x01\x80\nX-A b: c\nX-Frame-Options: DENY\nContent-Security-Policy: none", "<script>x</script>evil", at(22, 2)),
		{Kind: archive.Page, URL: "http://www.waseda.ac.jp/cut", Time: at(22, 2), HTTP: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"), Body: strings.NewReader("<body>half"), Truncated: "length"},
	}})
	s.Publish("20261123", map[string][]*archive.Record{host: {
		servetest.Again(page, first, at(22, 1), at(23, 1)),
		servetest.Answer("http://www.waseda.ac.jp/sjis.html", 503, at(23, 1)),
	}})
	s.Publish("20261124", map[string][]*archive.Record{host: {html(page, second, at(24, 1))}, "waseda.ac.jp": {html("https://waseda.ac.jp/d/p.html", "short name", at(25, 1))}})
	return s
}

func ofDay(day int, mode, url string) string {
	return fmt.Sprintf("/web/202611%d010000%s/%s", day, mode, url)
}

func TestMemento(t *testing.T) {
	s := newPages(t)
	resp, body := s.do(t, "GET", "jp", ofDay(23, "", page))
	h := resp.Header
	if resp.StatusCode != 200 || h.Get("Memento-Datetime") != "Mon, 23 Nov 2026 01:00:00 GMT" || h.Get("Content-Type") != "text/html; charset=windows-1252" {
		t.Fatalf("%s %v", resp.Status, h)
	}
	if !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") || strings.Contains(h.Get("Content-Security-Policy"), "allow-scripts") {
		t.Errorf("policy %q", h.Get("Content-Security-Policy"))
	}
	want := strings.Join([]string{
		"<" + page + `>; rel="original"`,
		"<" + s.url + "/timegate/" + page + `>; rel="timegate"`,
		"<" + s.url + "/timemap/link/" + page + `>; rel="timemap"; type="application/link-format"; from="Sun, 22 Nov 2026 01:00:00 GMT"; until="Wed, 25 Nov 2026 01:00:00 GMT"`,
		"<" + s.url + ofDay(22, "", page) + `>; rel="first prev memento"; datetime="Sun, 22 Nov 2026 01:00:00 GMT"`,
		"<" + s.url + ofDay(24, "", page) + `>; rel="next memento"; datetime="Tue, 24 Nov 2026 01:00:00 GMT"`,
		"<" + s.url + ofDay(25, "", "https://waseda.ac.jp/d/p.html") + `>; rel="last memento"; datetime="Wed, 25 Nov 2026 01:00:00 GMT"`,
	}, ", ")
	if h.Get("Link") != want {
		t.Errorf("Link: %s\nwant %s", h.Get("Link"), want)
	}
	for _, part := range []string{"Monday", `href="/web/20261123010000/http://www.waseda.ac.jp/next.html"`, `src="/web/20261123010000/http://www.waseda.ac.jp/d/i.gif"`,
		"unchanged since 2026-11-22 01:00:00 UTC", `href="/web/*/` + page} {
		if !strings.Contains(string(body), part) {
			t.Errorf("%s is not in %s", part, body)
		}
	}
	etag := h.Get("ETag")
	if resp, body := s.do(t, "GET", "jp", ofDay(23, "", page), "If-None-Match", "W/"+etag); resp.StatusCode != 304 || len(body) > 0 || resp.Header.Get("Memento-Datetime") == "" {
		t.Errorf("with its ETag: %s", resp.Status)
	}
	if resp, _ := s.do(t, "GET", "jp", ofDay(23, "", page), "Accept-Language", "ja-JP,ja;q=0.9", "If-None-Match", etag); resp.StatusCode != 200 || resp.Header.Get("ETag") == etag {
		t.Errorf("in another language: %s", resp.Status)
	}
	if resp, body := s.do(t, "HEAD", "jp", ofDay(23, "", page)); resp.StatusCode != 200 || len(body) > 0 || resp.Header.Get("Link") != want {
		t.Errorf("HEAD: %s", resp.Status)
	}
}

// The bytes of id_ are those of the page, whatever its encoding.
func TestOriginalBytes(t *testing.T) {
	s := newPages(t)
	for _, url := range []string{"http://www.waseda.ac.jp/sjis.html", "http://www.waseda.ac.jp/d/i.gif"} {
		resp, body := s.do(t, "GET", "jp", ofDay(22, "id_", url))
		if resp.StatusCode != 200 || resp.ContentLength != int64(len(body)) || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%s: %s %v", url, resp.Status, resp.Header)
		}
		if want := fromArchive(t, s, url); !bytes.Equal(body, want) {
			t.Errorf("%s: %q, want %q", url, body, want)
		}
	}
	resp, body := s.do(t, "GET", "jp", ofDay(22, "", "http://www.waseda.ac.jp/sjis.html"), "Accept-Language", "ja")
	text, err := japanese.ShiftJIS.NewDecoder().String(string(body))
	if err != nil || resp.Header.Get("Content-Type") != "text/html; charset=shift_jis" || !strings.Contains(text, prose) ||
		!strings.Contains(text, `href="/web/20261122010000/http://www.waseda.ac.jp/x?q=%8C%EA"`) || strings.Contains(text, "すべての版") || !strings.Contains(text, "&#12377;&#12409;&#12390;&#12398;&#29256;") {
		t.Errorf("%v %s %s", err, resp.Header.Get("Content-Type"), text)
	}
	// A version that shows a passing trouble of the server is not the newest one, but can be
	// requested.
	if resp, _ := s.do(t, "GET", "jp", "/web/http://www.waseda.ac.jp/sjis.html"); resp.Header.Get("Location") != s.url+ofDay(22, "", "http://www.waseda.ac.jp/sjis.html") {
		t.Errorf("newest: %s", resp.Header.Get("Location"))
	}
	if resp, _ := s.do(t, "GET", "jp", ofDay(23, "", "http://www.waseda.ac.jp/sjis.html")); resp.StatusCode != 503 {
		t.Errorf("the trouble itself: %s", resp.Status)
	}
}

// fromArchive returns a page's body as it is in the host's archive.
func fromArchive(t *testing.T, s site, url string) []byte {
	t.Helper()
	_, warc := s.do(t, "GET", "jp", "/a/"+host+".warc.gz")
	zr, err := gzip.NewReader(bytes.NewReader(warc))
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(all), "WARC-Target-URI: "+url+"\r\n")
	if !ok {
		t.Fatalf("%s is not in the archive", url)
	}
	_, rest, _ = strings.Cut(rest, "\r\n\r\n") // the WARC header
	_, rest, _ = strings.Cut(rest, "\r\n\r\n") // the HTTP header
	body, _, _ := strings.Cut(rest, "\r\n\r\nWARC/1.1")
	return []byte(strings.TrimSuffix(body, "\r\n\r\n"))
}

func TestWays(t *testing.T) {
	s := newPages(t)
	for path, want := range map[string]string{
		"/web/" + page:                                            ofDay(25, "", "https://waseda.ac.jp/d/p.html"),
		"/web/2/" + page:                                          ofDay(25, "", "https://waseda.ac.jp/d/p.html"),
		"/web/id_/" + page:                                        ofDay(25, "id_", "https://waseda.ac.jp/d/p.html"),
		"/web/20261123/" + page:                                   ofDay(23, "", page), // though the end of the day is nearer to the next
		"/web/2026112301/" + page:                                 ofDay(23, "", page),
		"/web/19990101000000im_/" + page:                          ofDay(22, "if_", page),
		"/web/20261122010000/www.waseda.ac.jp/d/p.html":           "",
		"/web/20261122010000/http:/www.waseda.ac.jp/d/p.html":     "",
		"/web/20261122010000/http://waseda.ac.jp/d/p.html":        ofDay(22, "", page),
		"/timegate/" + page:                                       ofDay(25, "", "https://waseda.ac.jp/d/p.html"),
		"/web/20261122020000/http://www.waseda.ac.jp/moved":       "/web/20261122020000/" + page + "?a=b",
		"/diff/2026112201/2026112401/" + page:                     "/diff/20261122010000/20261124010000/" + page,
		"/diff?from=20261122010000&to=20261124010000&url=" + page: "/diff/20261122010000/20261124010000/" + page,
	} {
		resp, _ := s.do(t, "GET", "jp", path)
		location := resp.Header.Get("Location")
		switch {
		case want == "" && resp.StatusCode != 200, want != "" && location != s.url+want:
			t.Errorf("%s: %s %s, want %s", path, resp.Status, location, want)
		case strings.HasSuffix(path, "moved") && (resp.StatusCode != 301 || resp.Header.Get("Memento-Datetime") == ""):
			t.Errorf("a stored redirect: %s %v", resp.Status, resp.Header)
		}
	}
	for path, status := range map[string]int{
		"/web/": 400, "/web/20261122010000/": 400, "/web/20261399000000/" + page: 400, "/web/ftp://h/": 400, "/web/199/" + page: 400,
		"/timegate/": 400, "/timemap/link/": 400, "/diff/": 400, "/diff/1/2/x": 400, "/diff?from=x": 400, "/diff/2026/2026/": 400,
		"/web/http://www.waseda.ac.jp/none": 404, "/timegate/http://other.jp/": 404, "/timemap/json/http://www.keio.ac.jp/none": 404,
		"/web/2026/" + page + "/../../../../v1/hosts": 404, "/web/../v1/hosts": 404,
	} {
		if resp, body := s.do(t, "GET", "jp", path); resp.StatusCode != status || resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
}

func TestStoredAnswers(t *testing.T) {
	s := newPages(t)
	get := func(path string) (*http.Response, string) {
		resp, body := s.do(t, "GET", "jp", "/web/20261122020000"+path)
		return resp, string(body)
	}
	resp, body := get("/http://www.waseda.ac.jp/gone")
	if resp.StatusCode != 404 || resp.Header.Get("Memento-Datetime") == "" || !strings.Contains(body, "no such page") || !strings.Contains(body, "status 404") ||
		resp.Header.Get("Set-Cookie") != "" || resp.Header.Get("X-Archive-Orig-Set-Cookie") != "a=b" {
		t.Errorf("%s %v %s", resp.Status, resp.Header, body)
	}
	resp, body = get("/http://www.waseda.ac.jp/cut")
	if resp.StatusCode != 200 || resp.Header.Get("X-Archive-Truncated") != "length" || !strings.Contains(body, "not whole") {
		t.Errorf("%s %v %s", resp.Status, resp.Header, body)
	}
	resp, body = get("/http://www.waseda.ac.jp/evil")
	if resp.StatusCode != 200 || resp.Header.Get("X-Frame-Options") != "" || strings.Contains(body, "<script") || !strings.Contains(body, "evil") ||
		len(resp.Header.Values("Content-Security-Policy")) != 1 {
		t.Errorf("%s %v %s", resp.Status, resp.Header, body)
	}
	resp, body = get("/http://www.waseda.ac.jp/app")
	if resp.StatusCode != 200 || resp.Header.Get("Location") != "" || !strings.Contains(body, "itunes:x") {
		t.Errorf("%s %v %s", resp.Status, resp.Header, body)
	}
	resp, body = s.doText(t, ofDay(22, "", "http://www.waseda.ac.jp/frames.html"))
	if resp.StatusCode != 200 || !strings.Contains(body, `<iframe src="/web/20261122010000if_/http://www.waseda.ac.jp/frames.html"`) || strings.Contains(body, "<frameset") ||
		strings.Contains(resp.Header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("%s %s", resp.Status, body)
	}
	resp, body = s.doText(t, ofDay(22, "if_", "http://www.waseda.ac.jp/frames.html"))
	if resp.StatusCode != 200 || !strings.Contains(body, `<frame src="/web/20261122010000if_/http://www.waseda.ac.jp/a.html">`) || strings.Contains(body, "sheaf-archive-banner") {
		t.Errorf("%s %s", resp.Status, body)
	}
	resp, body = s.doText(t, ofDay(22, "", "http://www.waseda.ac.jp/d/i.gif"))
	if resp.Header.Get("Content-Type") != "image/gif" || body != "\xff\xfeGIF89a" {
		t.Errorf("%s %q", resp.Header.Get("Content-Type"), body)
	}
}

// The banner draws the versions over time, is XML where the page is, and has an address box whose
// form is the only one that the page may send.
func TestBanner(t *testing.T) {
	s := newPages(t)
	const xhtml = "http://www.waseda.ac.jp/x.xhtml"
	for day, name := range map[int]string{26: "20261126", 27: "20261127"} {
		s.Publish(name, map[string][]*archive.Record{host: {answer(archive.Page, xhtml, "HTTP/1.1 200 OK\nContent-Type: application/xhtml+xml",
			`<html xmlns="http://www.w3.org/1999/xhtml"><head><title>X</title></head><body><p>x</p></body></html>`, at(day, 1))}})
	}
	resp, body := s.doText(t, ofDay(24, "", page))
	for _, part := range []string{`href="` + ofDay(22, "", page) + `" target="_top" aria-label="2026-11-22 01:00:00 UTC"`, `href="` + ofDay(25, "", "https://waseda.ac.jp/d/p.html") + `" target="_top" aria-label`,
		`<title>2026-11-24 01:00:00 UTC</title>`, `action="` + s.url + `/find"`, "/diff/20261123010000/20261124010000/"} {
		if !strings.Contains(body, part) {
			t.Errorf("%s is not in %s", part, body)
		}
	}
	if policy := resp.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "sandbox ") || !strings.Contains(policy, "; form-action "+s.url+"/find;") || strings.Count(policy, "form") != 2 {
		t.Errorf("policy %s", policy)
	}
	resp, body = s.doText(t, ofDay(26, "", xhtml))
	if resp.StatusCode != 200 || !strings.Contains(body, "<svg") {
		t.Fatalf("%s %s", resp.Status, body)
	}
	for d := xml.NewDecoder(strings.NewReader(body)); ; {
		_, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("no XML: %v in %s", err, body)
		}
	}
}

func (s site) doText(t *testing.T, path string, header ...string) (*http.Response, string) {
	t.Helper()
	resp, body := s.do(t, "GET", "jp", path, header...)
	return resp, string(body)
}

// A stored redirect from http to https must not lead round in circles: for the archive these are
// one page.
func TestSelfRedirect(t *testing.T) {
	s := newSite(t)
	later := at(22, 1).Add(time.Second)
	s.Publish("20261122", map[string][]*archive.Record{host: {
		answer(archive.Response, "http://www.waseda.ac.jp/x", "HTTP/1.1 301 Moved\nLocation: https://www.waseda.ac.jp/x", "", at(22, 1)),
		servetest.Page("https://www.waseda.ac.jp/x", "here", later),
		answer(archive.Response, "http://www.waseda.ac.jp/y", "HTTP/1.1 301 Moved\nLocation: https://www.waseda.ac.jp/y", "", at(22, 1)),
	}})
	for path, want := range map[string]string{
		ofDay(22, "", "http://www.waseda.ac.jp/x"):  "200 here",
		"/web/http://waseda.ac.jp/x":                "200 here",
		"/timegate/http://www.waseda.ac.jp/x":       "200 here",
		ofDay(22, "", "https://www.waseda.ac.jp/y"): "200 elsewhere",
		ofDay(22, "", "http://www.waseda.ac.jp/y"):  "200 elsewhere",
		"/timegate/https://www.waseda.ac.jp/y":      "200 elsewhere",
		"/web/1999/http://www.waseda.ac.jp/y":       "200 elsewhere",
	} {
		for hops := 0; ; hops++ {
			resp, body := s.doText(t, path)
			if location := resp.Header.Get("Location"); location != "" && hops < 5 {
				path = strings.TrimPrefix(location, s.url)
				continue
			}
			status, text, _ := strings.Cut(want, " ")
			if fmt.Sprint(resp.StatusCode) != status || !strings.Contains(body, text) {
				t.Errorf("%s after %d redirects: %s %s", path, hops, resp.Status, body)
			}
			break
		}
	}
}

// A client that takes gzip gets the stored blocks, which decode to the same body.
func TestStoredGzip(t *testing.T) {
	s := newSite(t)
	s.Publish("20261122", map[string][]*archive.Record{host: {servetest.Page("http://"+host+"/text.html", strings.Repeat(prose, 1000), at(22, 1))}})
	path := ofDay(22, "id_", "http://"+host+"/text.html")
	plain, want := s.do(t, "GET", "jp", path, "Accept-Encoding", "gzip;q=0, br")
	resp, body := s.do(t, "GET", "jp", path, "Accept-Encoding", "br, gzip")
	zr, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(zr)
	if err != nil || !bytes.Equal(got, want) || resp.Header.Get("Content-Encoding") != "gzip" || plain.Header.Get("Content-Encoding") != "" ||
		resp.ContentLength != int64(len(body)) || resp.Header.Get("ETag") == plain.Header.Get("ETag") || resp.Header.Get("Vary") != "Accept-Encoding" {
		t.Errorf("%v: %d bytes, want %d; %v", err, len(got), len(want), resp.Header)
	}
	if again, _ := s.do(t, "GET", "jp", path, "Accept-Encoding", "gzip", "If-None-Match", resp.Header.Get("ETag")); again.StatusCode != 304 {
		t.Errorf("with its ETag: %s", again.Status)
	}
}

// Scopes, windows and take-downs apply to pages as they do to files.
func TestPagesObey(t *testing.T) {
	s := newPages(t)
	diff := "/diff/20261122010000/20261124010000/" + page
	for _, c := range []struct {
		account, path string
		status        int
	}{
		{"", ofDay(22, "", page), 401}, {"keio", ofDay(22, "", page), 404}, {"keio", "/timemap/link/" + page, 404}, {"keio", diff, 404},
		{"shut", ofDay(22, "", page), 503}, {"shut", ofDay(22, "id_", page), 503}, {"shut", diff, 503},
		{"shut", "/web/*/" + page, 200}, {"shut", "/timemap/link/" + page, 200}, {"shut", "/timegate/" + page, 302},
	} {
		if resp, body := s.do(t, "GET", c.account, c.path); resp.StatusCode != c.status {
			t.Errorf("%s as %q: %s %s", c.path, c.account, resp.Status, body)
		}
	}
	if resp, _ := s.do(t, "POST", "jp", ofDay(22, "", page)); resp.StatusCode != 405 {
		t.Errorf("POST: %s", resp.Status)
	}
	_, before := s.do(t, "GET", "jp", ofDay(22, "", page))
	if _, err := s.Catalog.Remove(t.Context(), catalog.Tombstone{Host: host, URLPrefix: page}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{ofDay(22, "", page), ofDay(23, "id_", page)} {
		if resp, body := s.do(t, "GET", "jp", path); resp.StatusCode == 200 || bytes.Equal(body, before) {
			t.Errorf("%s after the take-down: %s %s", path, resp.Status, body)
		}
	}
	if resp, body := s.doText(t, "/web/http://www.waseda.ac.jp/d/q", "Accept", "text/html"); resp.StatusCode != 404 || strings.Contains(body, page) {
		t.Errorf("what was taken down is suggested: %s", body)
	}
}
