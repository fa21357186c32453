package whole

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/manager"
	"sheaf/robotd"
	"sheaf/serve/watch"
	"sheaf/test/servicetest"
)

// A consumer has a page saved now: the robot visits it between two cycles, though no link leads to
// it, and the page can be seen soon after. So it is with a page that is known and has not changed.
func TestSaveAPageNow(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	pages := &newsSite{words: "a crane"}
	visits, count := make(chan string, 100), map[string]int{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		visits <- r.URL.Path
		pages.ServeHTTP(w, r)
	}))
	defer web.Close()
	settings := servicetest.Quiet()
	settings["publish.window"] = "always"
	s := servicetest.Start(t, settings)
	c := &consumer{t: t, url: s.At.HTTP, password: s.Consumer("c1")}
	cfg := s.Join("r1", map[string]string{host: web.Listener.Addr().String()})
	cfg.Interval, cfg.Cycle, cfg.Heartbeat, cfg.Express, cfg.Watch.Every = time.Millisecond, 24*time.Hour, 100*time.Millisecond, time.Millisecond, time.Hour
	s.Operate(http.MethodPost, api.PathAdminHosts, manager.HostsRequest{Hosts: []string{base + "/"}}, nil)
	servicetest.Run(t, "r1", func(ctx context.Context) error { return robotd.Run(ctx, cfg, slog.New(slog.DiscardHandler)) })
	visited := func(path string) {
		t.Helper()
		for {
			got := testkit.Receive(t, "a visit", visits)
			if count[got]++; got == path {
				return
			}
		}
	}
	visited("/")
	for _, path := range []string{"/news.html", "/"} {
		status, text := c.do(http.MethodPost, c.url+"/v1/watches", watch.Wish{URL: base + path, Once: true})
		if status != http.StatusCreated {
			t.Fatalf("%d %s", status, text)
		}
		var asked watch.Watch
		testkit.Must(t, json.Unmarshal([]byte(text), &asked))
		visited(path)
		var saved watch.Watch
		testkit.Eventually(t, "the page is saved", func() error {
			_, text := c.do(http.MethodGet, c.url+"/v1/watches/"+asked.ID, nil)
			if err := json.Unmarshal([]byte(text), &saved); err != nil {
				return err
			}
			if saved.Saved.Before(asked.Created) {
				return errors.New(text)
			}
			return nil
		})
		at := saved.Saved.UTC().Format("20060102150405")
		testkit.Eventually(t, "the page can be seen", func() error { // of a page that has not changed, once its first visit is published
			if status, text := c.do(http.MethodGet, c.url+"/web/"+at+"id_/"+base+path, nil); status != http.StatusOK || !strings.Contains(text, "<title>") {
				return fmt.Errorf("%s at %s: %d %s", path, at, status, text)
			}
			return nil
		})
	}
	for len(visits) > 0 {
		count[<-visits]++
	}
	if count["/news.html"] != 1 || count["/"] != 2 {
		t.Errorf("visits %v; want one for each that was asked for", count)
	}
}
