package httpd_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"sheaf/internal/api"
)

func TestVersions(t *testing.T) {
	s := newPages(t)
	resp, body := s.doText(t, "/web/*/"+page)
	if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Fatalf("%s %v", resp.Status, resp.Header)
	}
	last := 0
	for _, part := range []string{
		`href="` + ofDay(25, "", "https://waseda.ac.jp/d/p.html"), `href="` + ofDay(24, "", page), `href="/diff/20261123010000/20261124010000/` + page,
		`class="same"`, `href="` + ofDay(23, "", page), "unchanged", `href="` + ofDay(22, "", page), "<button>",
	} {
		i := strings.Index(body[last:], part)
		if i < 0 {
			t.Fatalf("%s is not where it should be in %s", part, body)
		}
		last += i
	}
	if strings.Contains(body, "/diff/20261122010000/20261123010000/") || strings.Count(body, "<script") != 1 || !strings.Contains(body, `<script src="/static/`) {
		t.Errorf("a comparison of what is the same, or another script than the pages' own: %s", body)
	}
	if _, body := s.doText(t, "/web/*/"+page, "Accept-Language", "fr, ja;q=0.8, en;q=0.5"); !strings.Contains(body, "ページの版一覧") || !strings.Contains(body, `lang="ja"`) {
		t.Errorf("in Japanese: %s", body)
	}
	resp, body = s.doText(t, "/web/http://www.waseda.ac.jp/d/q.html", "Accept", "text/html,*/*")
	if resp.StatusCode != 404 || !strings.Contains(body, `href="/web/*/`+page+`"`) {
		t.Errorf("a page that is not here: %s %s", resp.Status, body)
	}
}

func TestDiff(t *testing.T) {
	s := newPages(t)
	path := "/diff/20261122010000/20261124010000/" + page
	resp, body := s.doText(t, path)
	if resp.StatusCode != 200 || !strings.Contains(body, "<del>Monday</del>") || !strings.Contains(body, "<ins>Tuesday</ins>") {
		t.Errorf("%s %s", resp.Status, body)
	}
	_, raw := s.do(t, "GET", "jp", path, "Accept", "application/json")
	var d api.DiffDocument
	if err := json.Unmarshal(raw, &d); err != nil || !d.Text || d.Identical || d.SameBytes || d.Removed != 6 || d.Added != 7 || !d.Whole {
		t.Errorf("%v %s", err, raw)
	}
	_, raw = s.do(t, "GET", "jp", "/diff/20261122010000/20261123010000/"+page, "Accept", "application/json")
	if err := json.Unmarshal(raw, &d); err != nil || !d.Identical || !d.SameBytes {
		t.Errorf("a revisit: %v %s", err, raw)
	}
	image := "http://www.waseda.ac.jp/d/i.gif"
	if resp, body := s.doText(t, "/diff/20261122010000/20261122010000/"+image); resp.StatusCode != 200 || !strings.Contains(body, "bytes are the same") {
		t.Errorf("an image: %s %s", resp.Status, body)
	}
	if _, body := s.doText(t, path, "Accept-Language", "ja"); !strings.Contains(body, "変更箇所") {
		t.Errorf("in Japanese: %s", body)
	}
}

// Without an address, /web/ asks people for one, and leads to its versions.
func TestWebAsksForAnAddress(t *testing.T) {
	s := newPages(t)
	if resp, body := s.doText(t, "/web/", "Accept", "text/html"); resp.StatusCode != 200 || !strings.Contains(body, `<form class="find" action="/web/"`) {
		t.Errorf("%s %s", resp.Status, body)
	}
	if resp, _ := s.doText(t, "/web/?url=www.waseda.ac.jp%2Fd%2Fp.html", "Accept", "text/html"); resp.StatusCode != 302 || !strings.HasSuffix(resp.Header.Get("Location"), "/web/*/http://www.waseda.ac.jp/d/p.html") {
		t.Errorf("%s %v", resp.Status, resp.Header)
	}
	for _, bad := range []string{"javascript:alert(1)//", "http://a%0d%0aSet-Cookie:%20b/"} {
		if resp, _ := s.doText(t, "/web/?url="+url.QueryEscape(bad), "Accept", "text/html"); resp.StatusCode == 302 && !strings.Contains(resp.Header.Get("Location"), "/web/*/http") || resp.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %s %v", bad, resp.Status, resp.Header)
		}
	}
}
