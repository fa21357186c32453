package httpd_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/serve/servetest"
)

// maxHops is how many redirects readers follow, as curl -L --max-redirs 10 does.
const maxHops = 10

// follow gets a path and follows redirects.
func (s site) follow(t *testing.T, path string, header ...string) (resp *http.Response, body string, hops []string) {
	t.Helper()
	for hops = []string{path}; len(hops) <= maxHops; hops = append(hops, path) {
		resp, body = s.doText(t, path, header...)
		if to := resp.Header.Get("Location"); resp.StatusCode/100 == 3 && to != "" {
			path = strings.TrimPrefix(to, s.url)
			continue
		}
		return resp, body, hops
	}
	t.Fatalf("no end after %d redirects: %q", maxHops, hops)
	return nil, "", nil
}

// revisitOf returns a revisit with a head of its own, as other crawlers write it.
func revisitOf(url, head string, first *archive.Record, body string, at time.Time) *archive.Record {
	r := answer(archive.Revisit, url, head, "", at)
	r.Body, r.PayloadDigest, r.RefersTo, r.RefersDate = nil, servetest.Digest(body), first.URL, first.Time
	return r
}

// A revisit may be of any answer. Its own head tells status, target and type, and what it refers to
// is only the body.
func TestRevisitsOfAnything(t *testing.T) {
	s := newSite(t)
	const moved, lost, root = "<h1>301 Moved Permanently</h1>", "<h1>404</h1>", "http://www.waseda.ac.jp"
	to := func(path string) string { return "HTTP/1.1 301 Moved\nContent-Type: text/html\nLocation: " + path }
	a := answer(archive.Response, root+"/a", to("/a-new"), moved, at(22, 1))
	gone := answer(archive.Response, root+"/gone", "HTTP/1.1 404 Not Found\nContent-Type: text/html", lost, at(22, 1))
	text := answer(archive.Page, root+"/data.txt", "HTTP/1.1 200 OK\nContent-Type: text/plain", "<p>x</p>", at(22, 1))
	page := servetest.Page(root+"/page", "<p>page", at(22, 1))
	nowhere := &archive.Record{URL: root + "/nowhere", Time: at(21, 1)}
	s.Publish("20261122", map[string][]*archive.Record{host: {
		a, gone, text, page,
		servetest.Page(root+"/a-new", "<p>new a", at(22, 1)), servetest.Page(root+"/c-new", "<p>new c", at(22, 1)), servetest.Page(root+"/a-newest", "<p>newest a", at(22, 1)),
		revisitOf(root+"/c", to("/c-new"), a, moved, at(23, 1)),
		revisitOf(root+"/a", to("/a-newest"), a, moved, at(24, 1)),
		revisitOf(root+"/gone", "HTTP/1.1 404 Not Found\nContent-Type: text/html", gone, lost, at(24, 1)),
		revisitOf(root+"/data.html", "HTTP/1.1 200 OK\nContent-Type: text/html", text, "<p>x</p>", at(24, 1)),
		revisitOf(root+"/data", "HTTP/1.1 200 OK", text, "<p>x</p>", at(24, 1)),
		revisitOf(root+"/page", "HTTP/1.1 304 Not Modified", page, "<p>page", at(24, 1)),
		revisitOf(root+"/d", to("/c-new"), nowhere, "1", at(24, 1)),
		revisitOf(root+"/lost", "HTTP/1.1 404 Not Found", nowhere, "2", at(24, 1)),
		revisitOf(root+"/unknown", "HTTP/1.1 200 OK", nowhere, "3", at(24, 1)),
	}})
	for path, want := range map[string]struct {
		status       int
		media, shown string
	}{
		"/web/2026/http://www.waseda.ac.jp/a":           {200, "text/html", "newest a"},
		ofDay(22, "", root+"/a"):                        {200, "text/html", "<p>new a"},
		ofDay(23, "", root+"/c"):                        {200, "text/html", "new c"},
		ofDay(24, "", root+"/gone"):                     {404, "text/html", lost},
		ofDay(24, "id_", root+"/gone"):                  {404, "text/html", lost},
		ofDay(24, "", root+"/data.html"):                {200, "text/html", "<p>x</p>"},
		ofDay(24, "id_", root+"/data.html"):             {200, "text/html", "<p>x</p>"},
		ofDay(24, "id_", root+"/data"):                  {200, "text/plain", "<p>x</p>"},
		ofDay(24, "id_", root+"/page"):                  {200, "text/html", "<p>page"},
		ofDay(24, "", root+"/d"):                        {200, "text/html", "new c"},
		ofDay(24, "id_", root+"/lost"):                  {404, "", ""},
		"/web/2026/http://www.waseda.ac.jp/unknown":     {404, "application/problem+json", "is not here"},
		"/timegate/http://www.waseda.ac.jp/gone":        {404, "text/html", lost},
		"/timemap/json/http://www.waseda.ac.jp/gone":    {200, "application/json", "20261122010000/"},
		"/timemap/link/http://www.waseda.ac.jp/gone":    {200, "application/link-format", "20261124010000/"},
		"/timemap/link/http://www.waseda.ac.jp/c":       {200, "application/link-format", "20261123010000/"},
		"/timemap/link/http://www.waseda.ac.jp/unknown": {404, "application/problem+json", "is not here"},
	} {
		resp, body, hops := s.follow(t, path)
		if resp.StatusCode != want.status || !strings.HasPrefix(resp.Header.Get("Content-Type"), want.media) || !strings.Contains(body, want.shown) {
			t.Errorf("%s: %d %s %.200q by %q, want %+v", path, resp.StatusCode, resp.Header.Get("Content-Type"), body, hops, want)
		}
	}
}
