package httpd_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/serve/account"
	"sheaf/serve/httpd"
	"sheaf/serve/servetest"
	"sheaf/test/operatorstest"
)

// asked serves an archive to fuzzers; nobody waits for changes.
func asked(f *testing.F) http.Handler {
	s := servetest.New(f, &account.Account{Domains: []string{"jp"}})
	for _, d := range []int{21, 22} {
		s.Publish(fmt.Sprintf("202611%d", d), map[string][]*archive.Record{
			host:              {servetest.Page(page, noise(5000), at(d, 1))},
			"www.example.com": {servetest.Page("http://www.example.com/", "UNSEEN", at(d, 1))},
		})
	}
	stopping := make(chan struct{})
	close(stopping)
	router := mux.NewRouter()
	err := httpd.Register(router, httpd.Options{
		Library: s.Library, Accounts: s.Accounts, Recorder: s.Log, Jobs: s.Jobs, Stopping: stopping, Log: slog.New(slog.DiscardHandler),
		Gate: operatorstest.Shut,
	})
	if err != nil {
		f.Fatal(err)
	}
	return router
}

// FuzzRange asks for ranges of a file, with conditions. The answer must be the file, a range with
// the bytes of that place, ranges that are together not much larger than the file, or nothing.
func FuzzRange(f *testing.F) {
	router := asked(f)
	ask := func(header http.Header) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/pub/jp/ac/waseda/www/20261121.tar.gz", nil)
		r.Header = header
		w := httptest.NewRecorder()
		router.ServeHTTP(w, r)
		return w
	}
	first := ask(http.Header{})
	whole, etag := first.Body.Bytes(), first.Header().Get("ETag")
	if len(whole) < 4000 || etag == "" {
		f.Fatalf("%d bytes, ETag %q", len(whole), etag)
	}
	for _, list := range []string{"bytes=0-9", "bytes=-1", "bytes=5-,0-0", "bytes=9223372036854775807-", "bytes=0-0,0-0,-0", "lines=1-2", "bytes= 1 - 2 ,,", "bytes=0-18446744073709551616"} {
		for _, condition := range []string{"", etag, "W/" + etag, "*", "Sun, 22 Nov 2026 14:00:00 GMT", `"`} {
			f.Add(list, condition, "", "")
			f.Add(list, "", condition, condition)
		}
	}
	f.Fuzz(func(t *testing.T, list, ifRange, ifNoneMatch, ifMatch string) {
		header := http.Header{}
		for name, value := range map[string]string{"Range": list, "If-Range": ifRange, "If-None-Match": ifNoneMatch, "If-Match": ifMatch} {
			if value != "" {
				header.Set(name, value)
			}
		}
		w := ask(header)
		body := w.Body.Bytes()
		switch w.Code {
		case http.StatusOK:
			if !bytes.Equal(body, whole) {
				t.Fatalf("%q: %d bytes", header, len(body))
			}
		case http.StatusPartialContent:
			if strings.HasPrefix(w.Header().Get("Content-Type"), "multipart/byteranges") {
				if len(body) > len(whole)+64*300 {
					t.Fatalf("%q: %d bytes of %d", header, len(body), len(whole))
				}
				return
			}
			var from, to, of int
			if _, err := fmt.Sscanf(w.Header().Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &of); err != nil || of != len(whole) || !bytes.Equal(body, whole[from:to+1]) {
				t.Fatalf("%q: %q, %d bytes, %v", header, w.Header().Get("Content-Range"), len(body), err)
			}
		case http.StatusNotModified, http.StatusPreconditionFailed:
			if len(body) > 0 {
				t.Fatalf("%q: %d with %d bytes", header, w.Code, len(body))
			}
		case http.StatusRequestedRangeNotSatisfiable:
		default:
			t.Fatalf("%q: %d %s", header, w.Code, body)
		}
	})
}

// FuzzQueries sends arbitrary parameters. Each query must be answered or refused soon, and no
// answer may show what is outside the account's scope.
func FuzzQueries(f *testing.F) {
	router := asked(f)
	paths := []string{"/v1/changes", "/v1/hosts", "/v1/editions", "/v1/coverage", "/v1/cdx", "/v1/pages.warc.gz", "/v1/jobs", "/v1/version"}
	for i := range paths {
		for _, query := range []string{
			"", "since=1&mark=x&limit=1", "since=-1", "since=9223372036854775808&wait=300", "wait=1e9", "limit=0&cursor=%00", "host=www.example.com&surt=com,",
			"domain=&domain=jp&domain=%ff", "url=www.waseda.ac.jp/*&from=2026&to=99999999999999", "url=http://[::1/&matchType=domain", "url=*.com&output=json&fl=%0d%0a",
			"edition=20261121&prefix=jp&after=%2f..", ";&&==", "%zz",
		} {
			f.Add(uint8(i), query)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, query string) {
		r := httptest.NewRequest(http.MethodGet, paths[int(which)%len(paths)], nil)
		r.URL.RawQuery = query
		w := httptest.NewRecorder()
		router.ServeHTTP(w, r)
		if w.Code >= 500 || bytes.Contains(w.Body.Bytes(), []byte("UNSEEN")) || w.Code == 200 && strings.Contains(w.Body.String(), `"www.example.com"`) {
			t.Fatalf("%s?%q: %d %.500s", r.URL.Path, query, w.Code, w.Body)
		}
		for name, values := range w.Header() {
			if strings.ContainsAny(name+strings.Join(values, ""), "\r\n\x00") {
				t.Fatalf("%s?%q: %s: %q", r.URL.Path, query, name, values)
			}
		}
	})
}
