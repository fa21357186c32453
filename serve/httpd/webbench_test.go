package httpd_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/serve/account"
	"sheaf/serve/httpd"
	"sheaf/serve/servetest"
	"sheaf/test/operatorstest"
)

// BenchmarkPages asks for one page of 20 KB, out of 2,000 pages of which there are 30 versions
// each, rewritten, as its bytes, inflated and as they are stored, and compared with the version
// before. Beside them, net/http sends the same bytes from a file.
//
//	go test ./serve/httpd -run '^$' -bench Pages -benchtime 3000x
func BenchmarkPages(b *testing.B) {
	s := servetest.New(b, &account.Account{Domains: []string{"jp"}})
	url := func(n int) string { return fmt.Sprintf("http://%s/dir/page%d.html", host, n) }
	for version := range 30 {
		var captures []*archive.Record
		for n := range 2000 {
			body := fmt.Sprintf("<p>version %d of %d", version, n)
			if n == 1000 {
				body += strings.Repeat("<p>"+prose+"<a href=next.html>next</a><img src=i.gif>", 100)
			}
			captures = append(captures, servetest.Page(url(n), body, at(1, 1).AddDate(0, 0, version)))
		}
		s.Publish("20261122", map[string][]*archive.Record{host: captures})
	}
	recorder := transfers.NewBuffer(s.Log, slog.New(slog.DiscardHandler))
	go recorder.Run(b.Context())
	router := mux.NewRouter()
	if err := httpd.Register(router, httpd.Options{Library: s.Library, Accounts: s.Accounts, Recorder: recorder, Gate: operatorstest.Open}); err != nil {
		b.Fatal(err)
	}
	stamp := func(version int) string {
		return at(1, 1).AddDate(0, 0, version).Format("20060102150405")
	}
	dir, of := b.TempDir(), httptest.NewRecorder()
	bytes := "/web/" + stamp(15) + "id_/" + url(1000)
	router.ServeHTTP(of, httptest.NewRequest(http.MethodGet, bytes, nil))
	testkit.Must(b, os.WriteFile(filepath.Join(dir, "page"), of.Body.Bytes(), 0o600))
	router.PathPrefix("/page").Handler(http.FileServer(http.Dir(dir)))
	for _, c := range []struct{ name, path, coding string }{
		{"rewritten", "/web/" + stamp(15) + "/" + url(1000), ""}, {"bytes", bytes, ""}, {"stored", bytes, "gzip"}, {"file", "/page", ""},
		{"compared", "/diff/" + stamp(14) + "/" + stamp(15) + "/" + url(1000), ""}, {"versions", "/web/*/" + url(1000), ""}, {"timegate", "/timegate/" + url(1000), ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			measure(b, func() {
				r, w := httptest.NewRequest(http.MethodGet, c.path, nil), httptest.NewRecorder()
				r.Header.Set("Accept-Encoding", c.coding)
				if router.ServeHTTP(w, r); w.Code != http.StatusOK && w.Code != http.StatusFound {
					b.Fatal(w.Code, w.Body)
				}
			})
		})
	}
}
