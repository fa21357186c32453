package ui_test

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/serve/servetest"
)

// as sends a request of the account "reader" as a browser does, with a form if it has one.
func as(t *testing.T, method, address string, form url.Values) (status int, body string) {
	t.Helper()
	r, err := http.NewRequest(method, address, strings.NewReader(form.Encode()))
	testkit.Must(t, err)
	r.Header.Set("Accept", "text/html")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.SetBasicAuth("reader", "reader's password")
	resp, err := http.DefaultClient.Do(r)
	testkit.Must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	return resp.StatusCode, string(text)
}

// The page of a host leads to a form that watches it; the watch is then listed, and can be ended.
func TestWatchesByForms(t *testing.T) {
	base := faceOf(t, servetest.New(t, nil), "") + "/watches"
	if status, page := get(t, base+"?host=www.waseda.ac.jp"); status != http.StatusOK || !strings.Contains(page, `name="next" value="/watches?host=www.waseda.ac.jp"`) {
		t.Errorf("without an account there is no way to the log-in: %d %s", status, page)
	}
	resp, err := http.PostForm(base, url.Values{"act": {"add"}, "kind": {"host"}, "target": {"www.waseda.ac.jp"}})
	testkit.Must(t, err)
	if resp.Body.Close(); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a form without an account: %s", resp.Status)
	}
	if status, page := as(t, "GET", base+"?url=http://www.waseda.ac.jp/<script>", nil); status != 200 || strings.Contains(page, "<script>") {
		t.Errorf("%d %s", status, page)
	}
	_, mine := as(t, "GET", base, nil)
	mark := regexp.MustCompile(`href="(javascript:[^"]*)"`).FindStringSubmatch(mine)
	if mark == nil {
		t.Fatalf("there is no bookmark: %s", mine)
	}
	code, err := url.PathUnescape(html.UnescapeString(mark[1])) // as a browser does before it runs it
	if want := `javascript:location.href="` + base + `?url="+encodeURIComponent(location.href)`; err != nil || code != want {
		t.Errorf("the bookmark is %q, %v, want %q", code, err, want)
	}
	for kind, target := range map[string]string{"host": "www.waseda.ac.jp", "url": "http://www.waseda.ac.jp/a", "prefix": "http://www.waseda.ac.jp/b"} {
		if status, page := as(t, "POST", base, url.Values{"act": {"add"}, "kind": {kind}, "target": {target}}); status != 200 || !strings.Contains(page, ">"+target) || !strings.Contains(page, "Nobody collects this host yet") {
			t.Errorf("%s: %d %s", kind, status, page)
		}
	}
	for what, form := range map[string]url.Values{
		"out of scope": {"act": {"add"}, "kind": {"host"}, "target": {"www.example.com"}},
		"no mails":     {"act": {"add"}, "kind": {"host"}, "target": {"www.waseda.ac.jp"}, "email": {"a@example.jp"}, "every": {"day"}},
		"nothing":      {"act": {"add"}}, "no act": {}, "not there": {"act": {"remove"}, "watch": {"w0"}},
	} {
		if status, _ := as(t, "POST", base, form); status < 400 || status >= 500 {
			t.Errorf("%s: %d", what, status)
		}
	}
	_, page := as(t, "GET", base, nil)
	for _, m := range regexp.MustCompile(`name="watch" value="([a-z0-9]+)"`).FindAllStringSubmatch(page, -1) {
		as(t, "POST", base, url.Values{"act": {"remove"}, "watch": {m[1]}})
	}
	if _, page := as(t, "GET", base, nil); strings.Contains(page, "waseda") {
		t.Error(page)
	}
}
