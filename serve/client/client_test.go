package client_test

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/serve/client"
	"sheaf/serve/httpd"
	"sheaf/serve/servetest"
	"sheaf/test/operatorstest"
)

// service serves two editions of two hosts. Account alice may see jp; account shut may not download
// now.
func service(t *testing.T) (*servetest.Site, *client.Client) {
	t.Helper()
	s := servetest.New(t, nil)
	s.Account("alice", "always", "jp")
	s.Account("shut", "never", "jp")
	at := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	for i, text := range []string{"first", "second"} {
		at := at.AddDate(0, 0, i)
		s.Publish(at.Format("20060102"), map[string][]*archive.Record{
			"www.waseda.ac.jp": {servetest.Page("http://www.waseda.ac.jp/", text, at)},
			"www.example.com":  {servetest.Page("http://www.example.com/", text, at)},
		})
	}
	router := mux.NewRouter()
	err := httpd.Register(router, httpd.Options{
		Library: s.Library, Accounts: s.Accounts, Recorder: s.Log, Log: slog.New(slog.DiscardHandler),
		Gate: operatorstest.Shut,
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(router)
	t.Cleanup(server.Close)
	return s, of(t, server.URL)
}

// notify is a transport that calls a function before it sends a request.
type notify func()

func (n notify) RoundTrip(r *http.Request) (*http.Response, error) {
	n()
	return http.DefaultClient.Transport.RoundTrip(r)
}

// of returns a client of a service, as alice.
func of(t *testing.T, text string) *client.Client {
	t.Helper()
	to, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return &client.Client{URL: to, User: "alice", Password: "alice", HTTP: &http.Client{}}
}

// A client keeps its connections when an httptest.Server of another test ends.
func TestConnectionsOfItsOwn(t *testing.T) {
	var opened atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	c, err := client.Operator(server.URL, "token")
	testkit.Must(t, err)
	for range 2 {
		testkit.Must(t, c.Get(t.Context(), "/", io.Discard))
		httptest.NewServer(nil).Close()
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections were opened, want 1", n)
	}
}

// TestChanges follows the feed of a service change by change, waits for a change, and notices a
// cursor of another feed.
func TestChanges(t *testing.T) {
	testkit.Slow(t)
	s, c := service(t)
	var seen []api.Event
	at := api.Cursor{}
	for more := true; more; {
		page, err := c.Changes(t.Context(), at, api.Selection{Domains: []string{"ac.jp"}}, 1, 0)
		if err != nil || len(page.Events) > 1 {
			t.Fatalf("%+v, %v", page, err)
		}
		seen, at, more = append(seen, page.Events...), page.Next, page.More
	}
	if len(seen) != 2 || seen[0].Host != "www.waseda.ac.jp" || seen[1].Edition != "20261121" || len(seen[1].Files) < 2 {
		t.Errorf("%+v", seen)
	}
	published := make(chan error, 1)
	asked := make(chan struct{})
	c.HTTP.Transport = notify(func() { close(asked) })
	go func() {
		<-asked
		_, err := s.Catalog.Remove(t.Context(), catalog.Tombstone{Host: "www.waseda.ac.jp", Reason: "r", By: "b"})
		published <- err
	}()
	page, err := c.Changes(t.Context(), at, api.Selection{}, 100, time.Minute)
	if err := errors.Join(err, <-published); err != nil || len(page.Events) != 1 || page.Events[0].Op != api.Delete {
		t.Errorf("after waiting: %+v, %v", page, err)
	}
	c.HTTP.Transport = nil
	at.Mark = "another"
	if _, err := c.Changes(t.Context(), at, api.Selection{}, 1, 0); client.Status(err) != http.StatusGone {
		t.Errorf("with a cursor of another feed: %v", err)
	}
}

// TestOpen opens a file at the beginning, in the middle, and in the middle after it has changed.
func TestOpen(t *testing.T) {
	_, c := service(t)
	read := func(name string, from int64, etag string) ([]byte, *client.File) {
		t.Helper()
		f, err := c.Open(t.Context(), name, from, etag)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(f.Body)
		if err := errors.Join(err, f.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return data, f
	}
	const name = "/jp/ac/waseda/www/20261120.tar.gz"
	all, f := read(name, 0, "")
	if f.From != 0 || f.Size != int64(len(all)) || f.ETag == "" || len(all) < 100 {
		t.Fatalf("%+v, %d bytes", f, len(all))
	}
	if data, g := read(name, 50, f.ETag); g.From != 50 || g.Size != f.Size || !slices.Equal(data, all[50:]) {
		t.Errorf("continued: %+v, %d bytes", g, len(data))
	}
	if data, g := read(name, 50, `"another"`); g.From != 0 || g.Size != f.Size || !slices.Equal(data, all) {
		t.Errorf("continued although the ETag differs: %+v, %d bytes", g, len(data))
	}
	if data, g := read(name, 50, ""); g.From != 0 || !slices.Equal(data, all) {
		t.Errorf("continued without an ETag: %+v, %d bytes", g, len(data))
	}
}

// TestRefusals: errors have the service's explanation and the time for another try.
func TestRefusals(t *testing.T) {
	_, c := service(t)
	if _, err := c.Open(t.Context(), "/com/example/www/20261120.tar.gz", 0, ""); client.Status(err) != http.StatusNotFound {
		t.Errorf("missing file: %v", err)
	}
	wrong, shut := *c, *c
	wrong.Password = "x"
	if _, err := wrong.Open(t.Context(), "/README", 0, ""); client.Status(err) != http.StatusUnauthorized {
		t.Errorf("wrong password: %v", err)
	}
	shut.User, shut.Password = "shut", "shut"
	_, err := shut.Open(t.Context(), "/jp/ac/waseda/www/20261120.tar.gz", 0, "")
	var e *client.Error
	if !errors.As(err, &e) || e.Status != http.StatusServiceUnavailable || e.Reason != "window_closed" || e.Detail == "" || !e.Retry.IsZero() {
		t.Errorf("outside the window: %+v", err)
	}
	if err := c.Do(t.Context(), http.MethodGet, "/v1/version", nil, nil); err != nil {
		t.Error(err)
	}
	var version struct{ Version string }
	if err := c.Do(t.Context(), http.MethodGet, "/v1/version", nil, &version); err != nil {
		t.Error(err)
	}
	if err := c.Do(t.Context(), http.MethodPost, "/v1/version", version, nil); client.Status(err) != http.StatusMethodNotAllowed {
		t.Errorf("forbidden request: %v", err)
	}
}
