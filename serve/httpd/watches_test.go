package httpd_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/internal/mailer"
	"sheaf/internal/testkit"
	"sheaf/serve/httpd"
	"sheaf/serve/servetest"
	"sheaf/serve/watch"
	"sheaf/test/operatorstest"
)

// watchSite is a site whose accounts may watch pages.
func watchSite(t *testing.T) (site, *watch.Watches) {
	s := newSite(t)
	watches, err := watch.New(watch.Options{DB: s.DB, Records: s.Library.Records, Account: s.Accounts.Find, Base: "https://archive.test", Unconfirmed: true, Mail: new(mailer.Server), Poll: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	router := mux.NewRouter()
	err = httpd.Register(router, httpd.Options{Library: s.Library, Accounts: s.Accounts, Recorder: s.Log, Watches: watches, Jobs: s.Jobs,
		Gate: operatorstest.Open})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(router)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s, watches
}

// TestWatches: an account begins, sees and ends watches; no other account can see or end them.
func TestWatches(t *testing.T) {
	s, watches := watchSite(t)
	post := func(account, body string) (*http.Response, string) {
		t.Helper()
		req, _ := http.NewRequest(http.MethodPost, s.url+"/v1/watches", strings.NewReader(body))
		req.SetBasicAuth(account, account)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var doc map[string]any
		json.NewDecoder(resp.Body).Decode(&doc)
		text, _ := json.Marshal(doc)
		return resp, string(text)
	}
	for body, want := range map[string]int{
		`{"host": "www.keio.ac.jp"}`: 201, `{"host": "www.example.com"}`: 403, `{"hots": "www.keio.ac.jp"}`: 400, `nothing`: 400, `{}`: 400,
	} {
		if resp, text := post("jp", body); resp.StatusCode != want {
			t.Errorf("%s: %s %s", body, resp.Status, text)
		}
	}
	resp, text := post("jp", `{"url": "http://`+host+`/", "email": "me@example.jp", "every": "day"}`)
	at := resp.Header.Get("Location")
	if resp.StatusCode != 201 || !strings.HasPrefix(at, "/v1/watches/w") || !strings.Contains(text, "whsec_") {
		t.Fatalf("%s %v %s", resp.Status, resp.Header, text)
	}
	s.Publish("20261122", map[string][]*archive.Record{host: {servetest.Page("http://"+host+"/", "other words", day.AddDate(10, 0, 0))}})
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- watches.Run(ctx) }()
	testkit.Until(t, "a notice", func() bool {
		n, err := watches.Notices(t.Context(), "jp", "", 10)
		testkit.Must(t, err)
		return len(n) == 1
	})
	end()
	testkit.Must(t, <-ended)
	if resp, body := s.do(t, "GET", "jp", at); resp.StatusCode != 200 || !strings.Contains(string(body), `"what":"changed"`) {
		t.Errorf("%s %s", resp.Status, body)
	}
	for _, feed := range []string{"/v1/watches.atom", at + ".atom"} {
		if resp, body := s.do(t, "GET", "jp", feed); resp.StatusCode != 200 || !strings.Contains(string(body), "changed: http://"+host+"/") || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/atom+xml") {
			t.Errorf("%s: %s %s", feed, resp.Status, body)
		}
	}
	if resp, _ := s.do(t, "GET", "keio", at); resp.StatusCode != 404 {
		t.Errorf("another account's watch: %s", resp.Status)
	}
	if resp, _ := s.do(t, "GET", "", "/v1/watches"); resp.StatusCode != 401 {
		t.Errorf("nobody's watches: %s", resp.Status)
	}
	if resp, body := s.do(t, "GET", "jp", "/v1/watches"); resp.StatusCode != 200 || strings.Count(string(body), `"id"`) != 2 {
		t.Errorf("%s %s", resp.Status, body)
	}

	stop := at + "/stop/" + strings.Repeat("0", 32)
	if resp, body := s.do(t, "GET", "", stop, "Accept-Language", "ja"); resp.StatusCode != 200 || !strings.Contains(string(body), "止めますか") {
		t.Errorf("%s %s", resp.Status, body)
	}
	if resp, _ := s.do(t, "POST", "", stop); resp.StatusCode != 404 {
		t.Errorf("a wrong token: %s", resp.Status)
	}
	if resp, _ := s.do(t, "DELETE", "jp", at); resp.StatusCode != 204 {
		t.Errorf("%s", resp.Status)
	}
	if resp, _ := s.do(t, "GET", "jp", at); resp.StatusCode != 404 {
		t.Errorf("after its end: %s", resp.Status)
	}
}
