package httpd_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"sheaf/archive"
	"sheaf/serve/servetest"
)

const film = "http://" + host + "/film.mp4"

// newFilm returns a site with a body of the given size and a revisit of it.
func newFilm(t *testing.T) (site, string) {
	s := newSite(t)
	body := noise(700_000)
	s.Publish("20261122", map[string][]*archive.Record{host: {
		answer(archive.Page, film, "HTTP/1.1 200 OK\nContent-Type: video/mp4", body, at(22, 1)),
		servetest.Page("http://"+host+"/text.html", strings.Repeat(prose, 20_000), at(22, 1)),
		servetest.Page("http://"+host+"/empty.html", "", at(22, 1)),
		answer(archive.Response, "http://"+host+"/gone", "HTTP/1.1 404 Not Found\nContent-Type: text/html", "no such page", at(22, 1)),
	}})
	s.Publish("20261123", map[string][]*archive.Record{host: {servetest.Again(film, body, at(22, 1), at(23, 1))}})
	return s, body
}

// Players can fetch ranges of stored bodies, in either mode and of revisits. Each is the same as in
// the whole body (RFC 9110, 14).
func TestStoredRanges(t *testing.T) {
	s, whole := newFilm(t)
	size := len(whole)
	for _, path := range []string{ofDay(22, "id_", film), ofDay(22, "", film), ofDay(22, "if_", film), ofDay(23, "id_", film)} {
		resp, body := s.do(t, "GET", "jp", path)
		etag := resp.Header.Get("ETag")
		if resp.StatusCode != 200 || string(body) != whole || resp.Header.Get("Accept-Ranges") != "bytes" || resp.ContentLength != int64(size) ||
			!strings.HasPrefix(etag, `"`) || resp.Header.Get("Memento-Datetime") == "" {
			t.Fatalf("%s: %s, %d bytes, %v", path, resp.Status, len(body), resp.Header)
		}
		for _, c := range []struct {
			header   []string
			status   int
			from, to int // to is behind the last
		}{
			{[]string{"Range", "bytes=0-"}, 206, 0, size},
			{[]string{"Range", "bytes=0-0"}, 206, 0, 1},
			{[]string{"Range", "bytes=500000-500999"}, 206, 500_000, 501_000},
			{[]string{"Range", "bytes=-10"}, 206, size - 10, size},
			{[]string{"Range", "bytes=699000-999999999"}, 206, 699_000, size},
			{[]string{"Range", "bytes=5-", "If-Range", etag}, 206, 5, size},
			{[]string{"Range", "bytes=5-", "If-Range", `"another"`}, 200, 0, size},
			{[]string{"Range", "bytes=5-", "If-Range", "W/" + etag}, 200, 0, size},
			{[]string{"Range", "bytes=5-", "If-Range", "Sun, 22 Nov 2026 01:00:00 GMT"}, 200, 0, size},
			{[]string{"Range", "bytes=700000-"}, 416, 0, 0},
			{[]string{"Range", "bytes=5-", "If-Match", etag}, 206, 5, size},
			{[]string{"Range", "bytes=5-", "If-Match", `"another"`}, 412, 0, 0},
			{[]string{"If-Match", "*"}, 200, 0, size},
			{[]string{"Range", "bytes=5-", "If-None-Match", etag}, 304, 0, 0},
			{[]string{"If-None-Match", `"x", W/` + etag}, 304, 0, 0},
		} {
			for _, method := range []string{"GET", "HEAD"} {
				resp, body := s.do(t, method, "jp", path, c.header...)
				want := whole[c.from:c.to]
				if method == "HEAD" && resp.StatusCode/100 == 2 {
					if resp.ContentLength != int64(len(want)) {
						t.Errorf("HEAD %s %q: Content-Length %d, want %d", path, c.header, resp.ContentLength, len(want))
					}
					want = ""
				}
				if resp.StatusCode != c.status || resp.StatusCode/100 == 2 && string(body) != want || resp.StatusCode == 304 && len(body) > 0 {
					t.Errorf("%s %s %q: %s with %d bytes, want %d with %d", method, path, c.header, resp.Status, len(body), c.status, len(want))
				}
				if wantRange := "bytes " + strconv.Itoa(c.from) + "-" + strconv.Itoa(c.to-1) + "/" + strconv.Itoa(size); c.status == 206 && resp.Header.Get("Content-Range") != wantRange {
					t.Errorf("%s %s %q: Content-Range %q, want %q", method, path, c.header, resp.Header.Get("Content-Range"), wantRange)
				}
				if c.status == 206 && (resp.Header.Get("ETag") != etag || resp.Header.Get("Content-Type") != "video/mp4" || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "sandbox")) {
					t.Errorf("%s %s %q: %v", method, path, c.header, resp.Header)
				}
			}
		}
		resp, body = s.do(t, "GET", "jp", path, "Range", "bytes=600000-600009, 10-19")
		_, param, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
		parts := multipart.NewReader(bytes.NewReader(body), param["boundary"])
		for _, want := range []string{whole[600_000:600_010], whole[10:20]} {
			part, err := parts.NextPart()
			if err != nil {
				t.Fatalf("%s: two ranges: %v %v", path, err, resp.Header)
			}
			if got, err := io.ReadAll(part); err != nil || string(got) != want {
				t.Errorf("%s: of two ranges: %q, want %q, %v", path, got, want, err)
			}
		}
	}
}

// A range of an answer in gzip is one of the gzip file, whose ETag differs.
func TestRangesOfGzip(t *testing.T) {
	s, _ := newFilm(t)
	path := ofDay(22, "id_", "http://"+host+"/text.html")
	plain, _ := s.do(t, "HEAD", "jp", path, "Accept-Encoding", "identity")
	resp, head := s.do(t, "GET", "jp", path, "Accept-Encoding", "gzip", "Range", "bytes=0-99")
	etag := resp.Header.Get("ETag")
	if resp.StatusCode != 206 || resp.Header.Get("Content-Encoding") != "gzip" || etag == plain.Header.Get("ETag") || len(head) != 100 {
		t.Fatalf("%s %v", resp.Status, resp.Header)
	}
	rest, tail := s.do(t, "GET", "jp", path, "Accept-Encoding", "gzip", "Range", "bytes=100-", "If-Range", etag)
	zr, err := gzip.NewReader(io.MultiReader(bytes.NewReader(head), bytes.NewReader(tail)))
	if err != nil {
		t.Fatalf("%s: %v", rest.Status, err)
	}
	if text, err := io.ReadAll(zr); err != nil || string(text) != strings.Repeat(prose, 20_000) {
		t.Errorf("the ranges together: %d bytes, %v", len(text), err)
	}
	// A client that began with the other representation starts again.
	if resp, _ := s.do(t, "GET", "jp", path, "Accept-Encoding", "identity", "Range", "bytes=100-", "If-Range", etag); resp.StatusCode != 200 {
		t.Errorf("a range of the plain text with the tag of gzip: %s", resp.Status)
	}
	if resp, _ := s.do(t, "GET", "jp", path, "Accept-Encoding", "gzip", "If-None-Match", etag); resp.StatusCode != 304 || resp.Header.Get("ETag") != etag {
		t.Errorf("with the tag of gzip: %s %s", resp.Status, resp.Header.Get("ETag"))
	}
}

// Rewritten pages have no ranges, and errors no conditions.
func TestNoRanges(t *testing.T) {
	s, _ := newFilm(t)
	for path, status := range map[string]int{
		ofDay(22, "", "http://"+host+"/text.html"):    200,
		ofDay(22, "if_", "http://"+host+"/text.html"): 200,
		ofDay(22, "id_", "http://"+host+"/gone"):      404,
		ofDay(22, "", "http://"+host+"/gone"):         404,
	} {
		_, whole := s.do(t, "GET", "jp", path)
		for _, method := range []string{"GET", "HEAD"} {
			resp, body := s.do(t, method, "jp", path, "Range", "bytes=0-3")
			if resp.StatusCode != status || resp.Header.Get("Accept-Ranges") != "none" || resp.Header.Get("Content-Range") != "" || method == "GET" && !bytes.Equal(body, whole) {
				t.Errorf("%s %s: %s, %d bytes of %d, %v", method, path, resp.Status, len(body), len(whole), resp.Header)
			}
		}
		resp, _ := s.do(t, "GET", "jp", path, "If-None-Match", "*")
		if want := map[bool]int{true: http.StatusNotModified, false: status}[status == 200]; resp.StatusCode != want {
			t.Errorf("%s with If-None-Match: %s, want %d", path, resp.Status, want)
		}
		resp, _ = s.do(t, "GET", "jp", path, "If-Match", `"x"`)
		if want := map[bool]int{true: http.StatusPreconditionFailed, false: status}[status == 200]; resp.StatusCode != want {
			t.Errorf("%s with If-Match: %s, want %d", path, resp.Status, want)
		}
	}
	if resp, body := s.do(t, "GET", "jp", ofDay(22, "id_", "http://"+host+"/empty.html"), "Range", "bytes=0-"); resp.StatusCode/100 != 2 && resp.StatusCode != 416 || len(body) > 0 && resp.StatusCode != 416 {
		t.Errorf("a range of nothing: %s %q", resp.Status, body)
	}
}

// A Content-Type that can be understood in two ways is sent in one: an answer without a policy is
// PDF for every browser.
func TestTypeReadTwice(t *testing.T) {
	s := newSite(t)
	url := func(n int) string { return fmt.Sprintf("http://%s/%d.pdf", host, n) }
	types := []string{"application/pdf", "Application/PDF; charset=x", "application/pdf;, text/html", "application/pdf, text/html", "application/pdf;x=\",text/html"}
	var captures []*archive.Record
	for i, t := range types {
		captures = append(captures, answer(archive.Page, url(i), "HTTP/1.1 200 OK\nContent-Type: "+t, "<script>1</script>", at(22, 1)))
	}
	s.Publish("20261122", map[string][]*archive.Record{host: captures})
	for i, stored := range types {
		for _, mode := range []string{"", "if_", "id_"} {
			resp, _ := s.do(t, "GET", "jp", ofDay(22, mode, url(i)))
			if got := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || got != "application/pdf" && !strings.Contains(resp.Header.Get("Content-Security-Policy"), "script-src 'none'") {
				t.Errorf("stored as %q, in mode %q: %s, sent as %q with %q", stored, mode, resp.Status, got, resp.Header.Get("Content-Security-Policy"))
			}
		}
	}
}
