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

	"sheaf/archive/upkeep"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager/hosts"
	"sheaf/serve/account"
	"sheaf/test/servicetest"
	"sheaf/ui/removal"
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
			fmt.Fprint(w, "<p>", time.Now(), `<a href="/private/a">a</a> <a href="/%7Eme/b">b</a> <a href="/privately">c</a> <a href="/p%72ivate/d">d</a> <a href="/PRIVATE/e">e</a>`)
		case "/robots.txt":
			http.NotFound(w, r)
		default:
			fmt.Fprint(w, "<p>", r.URL.Path)
		}
	}))
	defer web.Close()
	s := servicetest.Start(t, servicetest.Quiet())
	robot := s.Robot("r1", "site.example.jp", web.Listener.Addr().String())
	private := []string{"https://site.example.jp/%70rivate/", "http://site.example.jp:80/~me/"}
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
	cycle("/", "/PRIVATE/e", "/private/a", "/private/d", "/privately", "/~me/b")
}

// A URL prefix names the same pages to a take-down, an access rule and an owner's removal, however
// it and the pages' URLs are spelled: of all that is given out, nothing has them.
func TestPrefixNamesTheSamePages(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	h := startWithdrawerOf(t, []string{good}, nil)
	h.bring(1)
	const host, secret, open = "old.example.jp", "the-secret", "for-everybody"
	var data strings.Builder
	bring := func(word string, urls ...string) {
		for i, url := range urls {
			block := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>%s, page %d", word, i)
			fmt.Fprintf(&data, "WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:x:%s-%d>\r\nWARC-Target-URI: %s\r\nWARC-Date: 2012-05-06T07:08:09Z\r\n"+
				"Content-Type: application/http;msgtype=response\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n", word, i, url, len(block), block)
		}
	}
	bring(secret, "http://old.example.jp/private/the-secret", "https://old.example.jp/private/the-secret2", "http://old.example.jp/%70rivate/the-secret3",
		"https://old.example.jp:443/p%72ivate/the-secret4", "http://old.example.jp:80/private/?the-secret5", "http://OLD.example.jp/a/../private/the-secret6",
		"http://old.example.jp/PRIVATE/the-secret7", "https://old.example.jp/%2570rivate/the-secret8", "http://old.example.jp/private?the-secret9")
	bring(open, "http://old.example.jp/privately", "http://old.example.jp/privat", "https://old.example.jp/a/private/", "http://www.old.example.jp/private/a", "http://old.example.jp:8080/private/a")
	testkit.Must(t, h.bringFile(wire.Collection{}, "old.warc", []byte(data.String())))

	shown := func(when string, secrets int) {
		t.Helper()
		found := map[string]int{}
		text, status := h.get(api.PathCDX + "?output=text&fl=url&url=*.old.example.jp")
		if status != http.StatusOK {
			t.Fatalf("status %d: %s", status, text)
		}
		for url := range strings.Lines(text) {
			if strings.Contains(url, secret) {
				found[secret]++
			} else {
				found[open]++
			}
		}
		if found[secret] != secrets || found[open] != 5 {
			t.Errorf("%s: the index has %v", when, found)
		}
		files := h.tree()
		if names := holding(files, secret); (len(names) > 0) != (secrets > 0) {
			t.Errorf("%s: it is in %q", when, names)
		}
		for _, n := range []string{"", "7", "8", "9"} { // what has the key of the URL that is asked for
			page := "http://old.example.jp/private/the-secret" + n
			if n == "9" {
				page = "http://old.example.jp/private/?the-secret9"
			}
			text, _ := h.get(api.PathCDX + "?output=text&fl=url&url=" + url.QueryEscape(page))
			shown, status := h.get("/web/20120506070809id_/" + page)
			if (text != "") != (secrets > 0) || (status == http.StatusOK) != (secrets > 0) || secrets == 0 && strings.Contains(shown, secret+", page") {
				t.Errorf("%s: a look-up of %s finds %q, and the page is answered %d %q", when, page, text, status, shown)
			}
		}
		if names := holding(files, open); len(names) < 6 {
			t.Errorf("%s: other pages are only in %q", when, names)
		}
	}
	shown("before", 9)
	for _, prefix := range []string{"http://old.example.jp/private/", "https://old.example.jp/private/", "HTTPS://Old.Example.jp:443/x/../%70rivate/"} {
		stone := upkeep.TakedownRequest{Host: host, URLPrefix: prefix, Reason: "court"}
		h.operate(http.MethodPost, api.PathAdminTakedowns, stone, nil)
		shown("taken down as "+prefix, 0)
		stone.URLPrefix = "http://old.example.jp/p%72ivate/"
		h.operate(http.MethodPost, api.PathAdminLift, stone, nil)

		var rule account.Rule
		h.operate(http.MethodPost, api.PathAdminAccess, account.Rule{URLPrefix: prefix, Accounts: []string{"reader"}, Reason: "contract"}, &rule)
		shown("restricted as "+prefix, 0)
		h.operate(http.MethodDelete, fmt.Sprintf("%s/%d", api.PathAdminAccess, rule.ID), nil, nil)
	}
	shown("once all is lifted", 9)
	ask := h.owner("prefix", "https://old.example.jp/%70rivate/", nil)
	h.operate(http.MethodPost, api.PathAdminRemovals+"/"+strings.Split(ask.page, "/")[2], removal.Decision{Grant: true, Unproved: true, By: "ops"}, nil)
	shown("removed for its owner", 0)
}
