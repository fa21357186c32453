package httpd_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gorilla/mux"

	"sheaf/serve/httpd"
	"sheaf/test/operatorstest"
)

// Files over TLS, which sendfile cannot send, have the same bytes: with one request at a time on a
// connection (HTTP/1.1) and with many (HTTP/2), whole and in ranges.
func TestArchivesOverTLS(t *testing.T) {
	s := newSite(t)
	router := mux.NewRouter()
	err := httpd.Register(router, httpd.Options{
		Library: s.Library, Accounts: s.Accounts, Recorder: s.Log, Gate: operatorstest.Open,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, h2 := range []bool{false, true} {
		server := httptest.NewUnstartedServer(router)
		server.EnableHTTP2 = h2
		server.StartTLS()
		defer server.Close()
		for _, form := range []string{".members.tar.gz", ".tar.gz", ".warc.gz", ".wacz"} {
			_, want := s.do(t, "GET", "jp", edition+form)
			for _, ranges := range []string{"", fmt.Sprintf("bytes=100-%d", len(want)-101)} {
				req, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+edition+form, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.SetBasicAuth("jp", "jp")
				part := want
				if ranges != "" {
					req.Header.Set("Range", ranges)
					part = want[100 : len(want)-100]
				}
				resp, err := server.Client().Do(req)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || !bytes.Equal(got, part) || (resp.ProtoMajor == 2) != h2 {
					t.Errorf("%s %s of %s: %s, %d bytes, want %d, %v", resp.Proto, ranges, form, resp.Status, len(got), len(part), err)
				}
			}
		}
	}
}
