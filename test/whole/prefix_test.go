package whole

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/manager/hosts"
	"sheaf/test/servicetest"
)

// A robot does not ask for the pages that their owner has left out, and asks for them again when an
// operator ends that.
func TestPrefixIsLeftOut(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[string]bool{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.URL.Path] = true
		mu.Unlock()
		switch r.URL.Path {
		case "/":
			fmt.Fprint(w, "<p>", time.Now(), `<a href="/private/a">a</a> <a href="/%7Eme/b">b</a> <a href="/privately">c</a>`)
		case "/robots.txt":
			http.NotFound(w, r)
		default:
			fmt.Fprint(w, "<p>", r.URL.Path)
		}
	}))
	defer web.Close()
	s := servicetest.Start(t, servicetest.Quiet())
	robot := s.Robot("r1", "site.example.jp", web.Listener.Addr().String())
	private := []string{"http://site.example.jp/private/", "http://site.example.jp/~me/"}
	for _, prefix := range private {
		s.Operate(http.MethodPost, api.PathAdminPrefixes, hosts.RefusedPrefix{URL: prefix, Reason: "its owner"}, nil)
	}
	cycle := func(want ...string) {
		t.Helper()
		testkit.Must(t, robot.Cycle(t.Context()))
		mu.Lock()
		defer mu.Unlock()
		maps.DeleteFunc(asked, func(path string, _ bool) bool { return path == "/robots.txt" || strings.HasSuffix(path, ".html") }) // and the page that cannot exist
		if got := slices.Sorted(maps.Keys(asked)); !slices.Equal(got, want) {
			t.Errorf("the site was asked for %q, want %q", got, want)
		}
		clear(asked)
	}
	cycle("/", "/privately")
	for _, prefix := range private {
		s.Operate(http.MethodDelete, api.PathAdminPrefixes+"?"+url.Values{"url": {prefix}}.Encode(), nil, nil)
	}
	cycle("/", "/private/a", "/privately", "/~me/b")
}
