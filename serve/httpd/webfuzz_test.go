package httpd_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/serve/account"
	"sheaf/serve/httpd"
	"sheaf/serve/servetest"
	"sheaf/test/operatorstest"
)

// Whatever is requested: the service does not fail, no header has a line end, no link leads out of
// the service, and nothing is shown that was taken down or is outside the scope.
func FuzzPages(f *testing.F) {
	s := servetest.New(f, &account.Account{Domains: []string{"jp"}})
	s.Publish("20261122", map[string][]*archive.Record{
		host:              {servetest.Page(page, "<p>seen", at(22, 1)), answer(archive.Response, "http://www.waseda.ac.jp/moved", "HTTP/1.1 301 Moved\nLocation: //x\ty", "", at(22, 1))},
		"www.example.com": {servetest.Page("http://www.example.com/", "UNSEEN", at(22, 1))},
	})
	router := mux.NewRouter()
	if err := httpd.Register(router, httpd.Options{Library: s.Library, Accounts: s.Accounts, Recorder: s.Log, Gate: operatorstest.Open}); err != nil {
		f.Fatal(err)
	}
	f.Add(ofDay(22, "", page), "", "ja")
	f.Add("/web/2026*/www.waseda.ac.jp/%0d%0aX:y", "Sun, 22 Nov 2026 14:00:00 GMT", "en;q=x")
	f.Add("/diff/2026/20261122010000/"+page+"?%00#", "x", "")
	f.Add("/timemap/json/http:%2f%2fwww.waseda.ac.jp/../moved", "", "ja,,;")
	f.Add("/timegate//@www.example.com\\", "", "")
	f.Add("/diff?from=2026&to=2026&url=http://www.example.com/", "", "")
	f.Add("/web/20261122010000id_/http://www.example.com/", "", "")
	f.Fuzz(func(t *testing.T, path, when, lang string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || u.Host != "" || !strings.HasPrefix(path, "/") {
			return
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL, r.RequestURI = u, path
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Accept-Datetime", when)
		r.Header.Set("Accept-Language", lang)
		w := httptest.NewRecorder()
		router.ServeHTTP(w, r)
		if w.Code >= 500 || strings.Contains(w.Body.String(), "UNSEEN") {
			t.Fatalf("%q: %d %s", path, w.Code, w.Body)
		}
		for name, values := range w.Header() {
			if strings.ContainsAny(name+strings.Join(values, ""), "\r\n\x00") {
				t.Fatalf("%q: %s: %q", path, name, values)
			}
		}
		if to := w.Header().Get("Location"); to != "" && !strings.HasPrefix(to, "/web/") && !strings.HasPrefix(to, "/diff/") && !strings.HasPrefix(to, "/pub") {
			t.Fatalf("%q leads to %q", path, to)
		}
	})
}
