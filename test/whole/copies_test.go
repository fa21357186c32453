package whole

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"testing"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/manager"
	"sheaf/robotd"
)

// Three robots have copies of one host. The line of one goes through a proxy that inserts an
// advertisement into pages. After a night in which pages changed as well, that robot is reported,
// and no other. Every robot's batch is published, which Drain waits for.
func TestRobotWithFalsifiedPagesIsShown(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const host = "www.copied.example.jp"
	night := 0
	origin := &sharedSite{pages: 30, body: func(path string, n int) string {
		if n%5 == 0 {
			return fmt.Sprintf("<p>news of %d", time.Now().UnixNano()) // changes all the time
		}
		return fmt.Sprintf("<p>text of %s as of %d", path, night)
	}}
	web := httptest.NewServer(origin)
	defer web.Close()
	to, err := url.Parse(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ModifyResponse = func(resp *http.Response) error {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		body = append(body, "<p>buy this"...)
		resp.Body = io.NopCloser(bytes.NewReader(body))
		resp.ContentLength = int64(len(body))
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
		return nil
	}
	line := httptest.NewServer(proxy)
	defer line.Close()

	h := newSharing(t)
	robots := map[string]*robotd.Robot{}
	names := []string{"r1", "r2", "r3"}
	for _, name := range names {
		addr := web.Listener.Addr().String()
		if name == "r2" {
			addr = line.Listener.Addr().String()
		}
		cfg := h.robot(name, map[string]string{host: addr})
		cfg.Interval, cfg.Once = time.Millisecond, true
		r, err := robotd.New(cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
		if err := r.Subscribe(t.Context()); err != nil {
			t.Fatal(err)
		}
		robots[name] = r
	}
	h.Operate(http.MethodPost, api.PathAdminHosts, manager.HostsRequest{Hosts: []string{"http://" + host + "/"}, Copies: 3}, nil)
	collect := func(name string) {
		t.Helper()
		if err := robots[name].Cycle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := robots[name].Drain(t.Context()); err != nil { // until it is published
			t.Fatal(err)
		}
	}
	var answer manager.CopiesResponse
	odd := func() (names []string) {
		h.Operate(http.MethodGet, api.PathAdminCopies, nil, &answer)
		for _, c := range answer.Copies {
			if c.Odd {
				names = append(names, c.Robot)
			}
		}
		return names
	}
	for _, name := range names {
		collect(name)
	}
	if got := odd(); len(got) != 1 || got[0] != "r2" {
		t.Fatalf("odd are %v, want r2 alone: %+v", got, answer.Copies)
	}
	for _, c := range answer.Copies {
		if c.Robot == "r2" && (c.Differing < 20 || c.Example == "") {
			t.Errorf("%+v: 24 pages were falsified that did not change", c)
		}
	}
	night++ // every page has changed now: that is no robot's fault
	for _, name := range []string{"r3", "r1"} {
		collect(name)
	}
	if got := odd(); len(got) != 1 || got[0] != "r2" {
		t.Errorf("after the pages have changed odd are %v: %+v", got, answer.Copies)
	}
	var shown manager.RobotsResponse
	h.Operate(http.MethodGet, api.PathAdminRobots, nil, &shown)
	if len(shown.Odd) != 1 || shown.Odd[0].Robot != "r2" {
		t.Errorf("shown with the robots: %+v", shown.Odd)
	}
	h.Operate(http.MethodPost, api.PathAdminHosts, manager.HostsRequest{Hosts: []string{"http://" + host + "/"}, Copies: 1}, nil)
	if got := odd(); len(got) != 0 || len(answer.Copies) != 0 {
		t.Errorf("with one robot again: %+v", answer.Copies)
	}
	if refused := h.quarantined(); len(refused) > 0 {
		t.Errorf("batches %v were refused", refused)
	}
}
