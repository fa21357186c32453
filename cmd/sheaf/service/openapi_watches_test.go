package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/internal/mailer"
	"sheaf/internal/testkit"
	"sheaf/internal/webpage"
	"sheaf/serve/httpd"
	"sheaf/serve/servetest"
	"sheaf/serve/watch"
	"sheaf/test/operatorstest"
)

// TestWatchesAreAnsweredAsDescribed goes through the life of watches: begun, told, failing, ended.
func TestWatchesAreAnsweredAsDescribed(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s := servetest.New(t, nil)
	s.Account("alice", "always", "jp")
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }))
	defer hook.Close()
	watches, err := watch.New(watch.Options{
		DB: s.DB, Records: s.Library.Records, Account: s.Accounts.Find, Base: "https://archive.example.jp", PrivateHooks: true, Limit: 3,
		Mail: &mailer.Server{Address: "127.0.0.1:1", From: "archive@example.jp", TLS: mailer.NoTLS, Patience: time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	router := mux.NewRouter()
	if err := httpd.Register(router, httpd.Options{
		Library: s.Library, Accounts: s.Accounts, Recorder: s.Log, Site: &webpage.Site{Version: "test"}, Watches: watches,
		Gate: operatorstest.Shut,
	}); err != nil {
		t.Fatal(err)
	}
	c := converse(t, router)
	c.ask(401, "GET", "/v1/watches", "")
	c.auth = func(r *http.Request) { r.SetBasicAuth("alice", "alice") }
	c.ask(200, "GET", "/v1/watches", "")
	c.ask(400, "POST", "/v1/watches", `{"url": "ftp://www.example.jp/"}`)
	c.ask(403, "POST", "/v1/watches", `{"host": "www.example.com"}`)
	var begun watch.Watch
	answer := c.ask(201, "POST", "/v1/watches", fmt.Sprintf(`{"url": "http://www.example.jp/", "email": "me@example.jp", "every": "hour", "webhook": %q}`, hook.URL))
	if err := json.Unmarshal(answer.Body.Bytes(), &begun); err != nil {
		t.Fatal(err)
	}
	c.ask(201, "POST", "/v1/watches", `{"url": "http://www.example.jp/search", "body": "q=1"}`)
	c.ask(201, "POST", "/v1/watches", `{"prefix": "http://www.example.jp/news/"}`)
	c.ask(403, "POST", "/v1/watches", `{"host": "www.example.jp"}`) // one too many

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- watches.Run(ctx) }()
	at := time.Now().UTC().Truncate(time.Second)
	for i, text := range []string{"<title>one</title>first", "<title>two</title>second"} {
		at := at.Add(time.Duration(i+1) * time.Minute)
		s.Publish(at.AddDate(0, 0, i).Format("20060102"), map[string][]*archive.Record{"www.example.jp": {servetest.Page("http://www.example.jp/", text, at)}})
	}
	one := "/v1/watches/" + begun.ID
	testkit.Eventually(t, "two notices, a webhook that has stopped and a mail that waits", func() error {
		body := c.ask(200, "GET", one, "").Body.String()
		if strings.Count(body, `"what"`) != 2 || !strings.Contains(body, "webhook_stopped") || !strings.Contains(body, "next") {
			return errors.New(body)
		}
		return nil
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, path := range []string{"/v1/watches", one + ".atom", "/v1/watches.atom"} {
		c.ask(200, "GET", path, "")
	}
	c.ask(404, "GET", "/v1/watches/wnone", "")
	c.ask(404, "GET", "/v1/watches/wnone.atom", "")
	c.auth = func(*http.Request) {} // these are for whoever reads a mail
	for _, link := range []string{"/confirm/", "/stop/"} {
		c.ask(200, "GET", one+link+"0123", "")
		c.ask(404, "POST", one+link+"0123", "")
	}
	c.auth = func(r *http.Request) { r.SetBasicAuth("alice", "alice") }
	c.ask(204, "DELETE", one, "")
	c.ask(404, "DELETE", one, "")
}
