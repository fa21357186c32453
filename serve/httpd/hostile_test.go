package httpd_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/archive"
	"sheaf/serve/servetest"
)

// raw sends a request of the account jp byte by byte. net/http's client would correct it.
func (s site) raw(t *testing.T, request string, header ...string) (*http.Response, []byte) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	method, _, _ := strings.Cut(request, " ")
	lines := append([]string{request + " HTTP/1.1", "Authorization: Basic anA6anA=", "Connection: close"}, header...) // jp:jp
	if _, err := io.WriteString(c, strings.Join(lines, "\r\n")+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%.200q: %v", request, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%.200q: %v", request, err)
	}
	return resp, body
}

// TestPathTricks: no path leads out of the tree or to another site.
func TestPathTricks(t *testing.T) {
	s := newSite(t)
	const secret = "the operators' token"
	for _, dir := range []string{s.Dir, filepath.Dir(s.Dir)} {
		if err := os.WriteFile(filepath.Join(dir, "token.tar.gz"), []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(s.Dir, "token.tar.gz")
	paths := []string{
		"/pub//evil.example/", "//evil.example/pub", `/\evil.example/`, "/pub/%2f%2fevil.example", "/%2fevil.example/%2e%2e", `/pub/\\evil.example`,
		"/pub/jp%00", "/pub/%00/jp/", edition + ".tar.gz%00.html", "/pub/C:/token.tar.gz",
		"/pub" + file, "/pub/" + url.PathEscape(file), "/pub/../../../../../../../.." + file,
		"/a/..%2ftoken.tar.gz", "/a/" + host + "/..%2f..%2f..%2f..%2f..%2ftoken.tar.gz", "/a/" + url.PathEscape(file),
		"/a/%00.tar.gz", "/a/" + host + "%00.tar.gz", "/a/" + host + "%00/20261121.tar.gz", "/a/" + host + "/%00.tar.gz",
		"/pub/" + strings.Repeat("../", 10_000) + "etc/passwd", "/pub/" + strings.Repeat("a/", 10_000), "/" + strings.Repeat("%2e%2e%2f", 5_000),
	}
	for _, up := range []string{"..", "%2e%2e", ".%2E", "..%2f..", "..%5c..", `..\..`, "%252e%252e", "..%00", "%c0%ae%c0%ae", "....//.."} {
		for _, base := range []string{"/", "/pub/", edition + ".tar.gz/", "/a/", "/a/" + host + "/", "/web/20261121/", "/v1/"} {
			paths = append(paths, base+up+"/token.tar.gz", base+up+"/"+up+"/"+up+"/etc/passwd")
		}
	}
	for _, path := range paths {
		for _, request := range []string{"GET " + path, "GET http://evil.example" + path} { // RFC 9112's absolute form
			resp, body := s.raw(t, request, "Host: archive.example")
			if resp.StatusCode < 300 || resp.StatusCode >= 500 || bytes.Contains(body, []byte(secret)) || bytes.Contains(body, []byte("root:")) {
				t.Errorf("%.200q: %s %.200q", request, resp.Status, body)
			}
			to := resp.Header.Get("Location")
			if at, err := url.Parse(to); err != nil || at.Host == "evil.example" && !strings.Contains(request, "http://evil.example") ||
				strings.HasPrefix(to, "//") || strings.HasPrefix(to, `/\`) {
				t.Errorf("%.200q leads to %q", request, to)
			}
		}
	}
}

// TestHeaderInjection: text of a request or of a stored page cannot add a header to the answer, or
// change a link or a file name.
func TestHeaderInjection(t *testing.T) {
	s := newSite(t)
	s.Account("all", "always", "*")
	const page = "http://www.waseda.ac.jp/a>;rel=\"self\",<http://evil.example/"
	s.Publish("20261122", map[string][]*archive.Record{host: {servetest.Page(page, "odd", day)}})
	const line = "%0d%0aX-Injected:%20yes%0d%0a%0d%0a<script>"
	const name = `%22;filename=evil.exe;x=%22`
	seen := map[string]int{}
	for _, path := range []string{
		"/a/" + host + line + ".tar.gz", "/a/" + line + "/20261121.tar.gz", "/a/" + host + "/20261121" + line + ".tar.gz",
		"/a/" + host + name + ".tar.gz", "/a/" + host + "/20261121" + name + ".tar.gz", "/a/WWW.Waseda.AC.JP.tar.gz", "/a/" + host + ".tar.gz",
		"/pub/" + line, "/pub/jp/" + line + "/", "/pub/jp/ac?" + line, "/pub/jp/ac?a=%3E;rel=next",
		"/v1/hosts?limit=1&prefix=jp,&x=" + line, "/v1/cdx?url=waseda.ac.jp&matchType=domain&limit=1&x=%3E;%20rel=evil,%3Chttp://evil.example",
		"/v1/changes?limit=1&surt=" + line, "/v1/pages.tar.gz?url=" + line, "/v1/coverage?url=http://" + host + "/" + line,
		"/web/20261121/http://" + host + "/" + line, "/timegate/http://" + host + "/" + line, "/timegate/" + line, "/timemap/link/http://" + host + "/" + line,
		"/web/20261121/" + url.PathEscape(page), "/timegate/" + page[:len("http://www.waseda.ac.jp/a")] + url.PathEscape(page[len("http://www.waseda.ac.jp/a"):]),
		"/diff/20261121/20261122/http://" + host + "/" + line,
	} {
		resp, body := s.raw(t, "GET "+path, "Host: archive.example", "Accept-Datetime: Sat, 21 Nov 2026 03:00:00 GMT")
		h := resp.Header
		for _, of := range []string{"Content-Disposition", "Link", "Location"} {
			seen[of] += len(h[of])
		}
		if resp.StatusCode >= 500 || h.Get("X-Injected") != "" || bytes.Contains(body, []byte("<script>")) && strings.HasPrefix(h.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %s %v %.200q", path, resp.Status, h, body)
		}
		if d := h.Get("Content-Disposition"); strings.Contains(d, "evil") || strings.ContainsAny(d, "\r\n\"") {
			t.Errorf("%s: Content-Disposition: %s", path, d)
		}
		if l := h.Get("Link"); strings.Contains(l, "<http://evil") || strings.Contains(l, "rel=evil") || strings.Contains(l, `>;rel=`) {
			t.Errorf("%s: Link: %s", path, l)
		}
		if to := h.Get("Location"); to != "" && !strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "http://archive.example/") {
			t.Errorf("%s leads to %s", path, to)
		}
	}
	if len(seen) != 3 || seen["Content-Disposition"]*seen["Link"]*seen["Location"] == 0 {
		t.Errorf("not all headers were tried: %v", seen)
	}
	for _, bad := range []string{"evil\"><script>", "a b", "a\x01", "a/\\b<>"} {
		if resp, body := s.raw(t, "GET /timegate/http://"+host+"/", "Host: "+bad); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("Host %q: %s %s", bad, resp.Status, body)
		}
	}
}

// TestRangeLists: an answer to any list of ranges is at most as long as the file and some headers,
// and HEAD says the same as GET.
func TestRangeLists(t *testing.T) {
	s := newSite(t)
	_, whole := s.do(t, "GET", "jp", edition+".tar.gz")
	spread := make([]string, 64)
	for i := range spread {
		spread[i] = fmt.Sprintf("%d-%d", 1000*i, 1000*i)
	}
	for name, c := range map[string]struct {
		list   string
		status int
	}{
		"64 that are small":       {strings.Join(spread, ","), 206},
		"65":                      {strings.Join(spread, ",") + ",1-1", 200},
		"the whole 64 times":      {strings.TrimSuffix(strings.Repeat("0-,", 64), ","), 200},
		"overlapping":             {strings.TrimSuffix(strings.Repeat("5-100000,", 64), ","), 200},
		"thousands":               {strings.TrimSuffix(strings.Repeat("0-0,", 15_000), ","), 200},
		"only commas":             {strings.Repeat(",", 50_000), 200},
		"blanks":                  {strings.Repeat(" ", 50_000) + "0-0", 206},
		"a number that overflows": {"99999999999999999999999-", 416},
		"negative":                {"--1", 416},
		"backwards":               {"9-5", 416},
		"a long number":           {strings.Repeat("9", 50_000) + "-", 416},
		"past the end":            {fmt.Sprintf("%d-", len(whole)), 416},
	} {
		list := "bytes=" + c.list
		resp, body := s.do(t, "GET", "jp", edition+".tar.gz", "Range", list)
		head, _ := s.do(t, "HEAD", "jp", edition+".tar.gz", "Range", list)
		if resp.StatusCode != c.status || len(body) > len(whole)+64*300 || c.status == 200 && !bytes.Equal(body, whole) {
			t.Errorf("%s: %s, %d bytes of %d", name, resp.Status, len(body), len(whole))
		}
		if head.StatusCode != c.status || head.ContentLength != resp.ContentLength {
			t.Errorf("%s: HEAD says %s and %d, GET %s and %d", name, head.Status, head.ContentLength, resp.Status, resp.ContentLength)
		}
	}
}
