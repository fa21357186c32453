package webpage_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sheaf/internal/problem"
	"sheaf/internal/testkit"
	"sheaf/internal/webpage"
	"sheaf/internal/wire"
)

// Browsers get a page where programs get a problem+json, with the same status and headers; nothing
// of a problem's text becomes markup.
func TestProblemsArePagesForBrowsers(t *testing.T) {
	site := &webpage.Site{Name: "Archive"}
	server := httptest.NewServer(site.Errors(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/file":
			w.Header().Set("Content-Type", "text/plain")
			io.Copy(w, strings.NewReader("contents"))
		case "/mine":
			ctx := webpage.WithUser(r.Context(), webpage.User{Name: "sato", Session: true, Home: "/board/"})
			webpage.KeepMenu(ctx, []webpage.Group{{Name: "Tonight", Links: []webpage.Link{{Name: "Robots", Path: "/board/robots"}, {Name: "Hosts", Path: "/board/hosts", Here: true}}}})
			problem.Write(w, wire.Problem{Status: 503, Reason: "not_working", Detail: "the database has not answered for 3s"})
		default:
			problem.Write(w, wire.Problem{Status: 503, Reason: "window_closed", Detail: "<script>alert(1)</script>", Next: "2026-11-23T03:00:00Z"})
		}
	})))
	defer server.Close()
	get := func(path, accept string) (*http.Response, string) {
		r, err := http.NewRequest("GET", server.URL+path, nil)
		testkit.Must(t, err)
		r.Header.Set("Accept", accept)
		resp, err := http.DefaultClient.Do(r)
		testkit.Must(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		testkit.Must(t, err)
		return resp, string(body)
	}
	resp, page := get("/", "text/html")
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || resp.Header.Get("Content-Type") != "text/html; charset=utf-8" ||
		strings.Contains(page, "<script>alert") || !strings.Contains(page, "2026-11-23 03:00 UTC") {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Header, page)
	}
	_, page = get("/mine", "text/html")
	for _, want := range []string{`<a href="/board/robots">Robots</a>`, `aria-current="page">Hosts</a>`, "sato", `action="/logout"`, "the database has not answered"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not on the page of an error: %s", want, page)
		}
	}
	if _, page := get("/", "text/html"); strings.Contains(page, "sato") || strings.Contains(page, "board/robots") {
		t.Errorf("somebody else's menu: %s", page)
	}
	resp, body := get("/", "*/*")
	if resp.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(body, "window_closed") {
		t.Errorf("%v %s", resp.Header, body)
	}
	resp, body = get("/file", "text/html")
	if resp.StatusCode != 200 || body != "contents" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}
