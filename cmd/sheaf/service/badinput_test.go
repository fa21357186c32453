package service

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/internal/webpage"
)

// What robots, consumers and operators bring is shown as text on every page, whatever markup it
// has.
func TestBadInputIsShownAsText(t *testing.T) {
	const script = `"'><script>alert(1)</script><img src=x onerror=alert(1)>`
	s := newTestService(t)
	fillBoard(t, s, script)
	addAccount(t, s, "reader", "secret")
	paths := map[string]bool{ // whether it shows the text at all
		"/find?q=" + url.QueryEscape(script): false, "/watches?url=" + url.QueryEscape(script): true, "/watches?host=" + url.QueryEscape(script): true,
		"/web/*/http://h/" + url.PathEscape(script): false, "/browse/" + url.PathEscape(script) + "/": false, "/login?next=" + url.QueryEscape(script): false,
		"/board/robots/" + url.PathEscape("robot"+script): true, "/board/batches/" + url.PathEscape("b1"+script): true,
		"/board/batches?robot=" + url.QueryEscape(script): true, "/board/batches?state=" + url.QueryEscape(script): true,
		"/board/hosts?state=" + url.QueryEscape(script): true, "/board/transfers?who=" + url.QueryEscape(script): true, "/board/transfers?by=" + url.QueryEscape(script): false,
	}
	for name, path := range boardPages {
		switch name {
		case "accepted", "releases", "store", "silent":
			paths[path] = false
		case "accounts", "account", "access", "takedowns", "collections", "operators": // TestReadersPagesShowText fills these
			paths[path] = false
		default:
			paths[path] = true
		}
	}
	for path, shows := range paths {
		for _, lang := range []string{"en", "ja"} {
			user, password := "reader", "secret"
			if strings.HasPrefix(path, "/board/") {
				user, password = "ops", s.OperatorToken()
			}
			w := browse(s, http.MethodGet, path, user, password, nil, "Accept-Language", lang)
			page := w.Body.String()
			if strings.Contains(page, "<script>alert") || strings.Contains(page, "<img src=x") {
				t.Errorf("%s: the text is markup: %s", path, page)
			}
			if shows && !strings.Contains(page, "alert(1)") {
				t.Errorf("%s: %d, and the text is not shown", path, w.Code)
			}
			if policy := w.Header().Get("Content-Security-Policy"); strings.Contains(w.Header().Get("Content-Type"), "html") && w.Code == 200 && policy != webpage.Policy {
				t.Errorf("%s: policy %q", path, policy)
			}
		}
	}
}

// While the database is away, the operators' pages say so, and what needs no database goes on.
// test/crash downloads meanwhile.
func TestBoardWithoutDatabase(t *testing.T) {
	s := newTestService(t)
	token := s.OperatorToken()
	testkit.Must(t, s.state.db.Close())
	for _, path := range []string{"/board/", "/board/robots", "/board/batches", "/board/levelling", "/board/transfers"} {
		if w := browse(s, http.MethodGet, path, "ops", token, nil); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "database") {
			t.Errorf("%s: %d: %s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"/livez", "/webmasters", "/robots.txt"} {
		if w := browse(s, http.MethodGet, path, "", "", nil); w.Code != 200 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}
