package httpd_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/serve/account"
	"sheaf/serve/httpd"
	"sheaf/serve/servetest"
	"sheaf/test/operatorstest"
)

// changes fetches a page of changes. It returns the page and the target of its Link.
func (s site) changes(t *testing.T, account, path string) (page api.Page, next string) {
	t.Helper()
	resp, body := s.do(t, "GET", account, path)
	if err := json.Unmarshal(body, &page); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: %s %v %s", path, resp.Status, err, body)
	}
	next, _, ok := strings.Cut(strings.TrimPrefix(resp.Header.Get("Link"), "<"), `>; rel="next"`)
	if !ok {
		t.Fatalf("%s: Link %q", path, resp.Header.Get("Link"))
	}
	return page, next
}

func TestChanges(t *testing.T) {
	s := newSite(t)
	if _, err := s.Catalog.Remove(t.Context(), catalog.Tombstone{Host: "www.keio.ac.jp", Reason: "a letter", By: "ops"}); err != nil {
		t.Fatal(err)
	}
	var told []string
	path := api.PathChanges + "?limit=1"
	for more := true; more; {
		var page api.Page
		page, path = s.changes(t, "jp", path)
		for _, e := range page.Events {
			told = append(told, fmt.Sprint(e.Seq, e.Op, e.Edition, e.Host, len(e.Files), e.Why))
			for _, f := range e.Files {
				resp, body := s.do(t, "GET", "jp", "/pub"+e.Path+f.Name)
				if int64(len(body)) != f.Size || servetest.SHA256(body) != f.SHA256 || resp.Header.Get("ETag") != f.ETag {
					t.Errorf("%s is not what was told", f.Name)
				}
			}
		}
		more = page.More
	}
	if want := "[2put20261121www.waseda.ac.jp2 3deletewww.keio.ac.jp0takedown]"; fmt.Sprint(told) != want {
		t.Errorf("%v, want %s", told, want)
	}
	if _, body := s.do(t, "GET", "jp", api.PathChanges); strings.Contains(string(body), "letter") {
		t.Errorf("tells of reasons: %s", body)
	}
	page, _ := s.changes(t, "jp", api.PathChanges+"?since=2&domain=ac.jp&surt=cn,")
	if len(page.Events) != 1 || page.Events[0].Seq != 3 {
		t.Errorf("since 2: %+v", page)
	}
	if page, _ := s.changes(t, "shut", api.PathChanges+"?host="+host); len(page.Events) != 1 || page.Next.Since != 3 {
		t.Errorf("of one host, outside the window: %+v", page)
	}

	_, of := s.changes(t, "keio", api.PathChanges)
	for _, c := range []struct {
		path, reason string
		status       int
	}{
		{"?since=4", "future", 400},
		{"?since=-1", "bad_query", 400},
		{"?since=2026-11-21", "bad_query", 400},
		{"?limit=0", "bad_query", 400},
		{"?wait=3600", "bad_query", 400},
		{"?" + strings.Repeat("host=a&", 101), "selection", 400},
		{"?since=3&mark=0123456789abcdef", "expired", 410},
		{"?since=99&mark=0123456789abcdef", "expired", 410},
		{strings.TrimPrefix(of, api.PathChanges), "expired", 410}, // of an account that sees other hosts
	} {
		resp, body := s.do(t, "GET", "jp", api.PathChanges+c.path)
		var p wire.Problem
		if err := json.Unmarshal(body, &p); err != nil || resp.StatusCode != c.status || p.Reason != c.reason {
			t.Errorf("%.40s: %s %s", c.path, resp.Status, body)
		}
		if link := resp.Header.Get("Link"); c.status == 410 && (!strings.Contains(link, `since=0>; rel="first"`) || strings.Contains(link, "mark")) {
			t.Errorf("%s: 410 without the way back: %q", c.path, link)
		}
	}
}

// TestChangesAreWaitedFor: a request that waits is answered when there is a change, when its time
// is over, and when the service stops, but not at once.
func TestChangesAreWaitedFor(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s := newSite(t)
	stopping := make(chan struct{})
	router := mux.NewRouter()
	err := httpd.Register(router, httpd.Options{Library: s.Library, Accounts: s.Accounts, Recorder: s.Log, Stopping: stopping,
		Gate: operatorstest.Open})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(router)
	defer server.Close()
	s.url = server.URL
	wait := func(seconds int) <-chan api.Page {
		answered := make(chan api.Page, 1)
		go func() {
			page, _ := s.changes(t, "jp", fmt.Sprintf("%s?since=2&wait=%d", api.PathChanges, seconds))
			answered <- page
		}()
		return answered
	}
	begin := time.Now()
	if page := <-wait(1); len(page.Events) != 0 || time.Since(begin) < time.Second {
		t.Errorf("after %v: %+v", time.Since(begin), page)
	}
	answered := wait(300)
	select {
	case page := <-answered:
		t.Fatalf("nothing has come, but %+v", page)
	case <-time.After(100 * time.Millisecond):
	}
	s.Publish("20261122", map[string][]*archive.Record{"other.jp": {servetest.Page("http://other.jp/", "x", day)}})
	if page := <-answered; len(page.Events) != 1 || page.Events[0].Host != "other.jp" {
		t.Errorf("after the publish: %+v", page)
	}
	late := make(chan error, 1)
	go func() {
		_, err := s.Library.Changes.Wait(t.Context(), &account.Account{Domains: []string{"*"}}, api.Selection{}, api.Cursor{Since: 3}, 1, 5*time.Minute, stopping)
		late <- err
	}()
	close(stopping)
	if err := <-late; err != nil {
		t.Errorf("at the stop: %v", err)
	}
}
