package demo_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"

	"sheaf/cmd/sheaf/demo/sites"
	"sheaf/internal/testkit"
)

func openSites(t *testing.T) *sites.Web {
	packed, err := os.ReadFile("sites.zip.zst")
	testkit.Must(t, err)
	z, err := sites.Unpack(packed)
	testkit.Must(t, err)
	web, err := sites.Open(z)
	testkit.Must(t, err)
	return web
}

// TestEveryPageIsServed asks for each page of each day, as a robot would.
func TestEveryPageIsServed(t *testing.T) {
	web := openSites(t)
	handler := sites.NewHandler(web)
	server := httptest.NewServer(handler)
	defer server.Close()
	for day := 1; day <= sites.Days; day++ {
		handler.SetDay(day)
		for _, page := range web.Pages(day) {
			u, err := url.Parse(page)
			if err != nil {
				t.Fatal(err)
			}
			want, _, err := web.Body(day, u.Host, u.Path)
			if err != nil {
				t.Fatal(err)
			}
			req, err := http.NewRequest(http.MethodGet, server.URL+u.EscapedPath(), nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = u.Host
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK || string(got) != string(want) {
				t.Errorf("day %d: %s: status %d, %d bytes of %d, %v", day, page, resp.StatusCode, len(got), len(want), err)
			}
		}
	}
}

func TestWhatIsNotThere(t *testing.T) {
	web := openSites(t)
	for path, want := range map[string]int{"/none.html": 404, "/html": 301, "/html/": 200, "/../../seeds.txt": 404} {
		req := httptest.NewRequest(http.MethodGet, "http://im.example.ac.jp/", nil)
		req.URL.Path = path
		rec := httptest.NewRecorder()
		sites.NewHandler(web).ServeHTTP(rec, req)
		if rec.Code != want {
			t.Errorf("%s: %d, want %d", path, rec.Code, want)
		}
	}
}
