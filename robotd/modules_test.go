package robotd

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
	"sheaf/robotd/config"
)

// The workers and queues of the modules are as the settings say. With the smallest ones everything
// is collected all the same: a full queue only holds up the module before it.
func TestModules(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const hosts, pages = 20, 10
	at, seeds := map[string]string{}, []string{}
	for n := range hosts {
		host := fmt.Sprintf("h%d.test", n)
		at[host] = fmt.Sprintf("192.0.2.%d:80", n+1)
		seeds = append(seeds, "http://"+host+"/")
	}
	cfg := testConfig(t, newService(t), at)
	cfg.Interval = 0
	cfg.Modules = config.Modules{Extract: config.Module{Workers: 1, Queue: 1}, Store: config.Module{Workers: 3, Queue: 2}}
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		r := inBubble(t, cfg, network, seeds)
		defer r.Close()
		var told atomic.Int64
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			s, err := r.Status()
			testkit.Must(t, err)
			for _, m := range s.Modules {
				workers, queue := map[string]int{"extract": 1, "store": 3}[m.Name], map[string]int{"extract": 1, "store": 2}[m.Name]
				if workers == 0 {
					continue
				}
				if told.Add(1); m.Workers != workers || m.Queue > queue {
					t.Errorf("%s: %d workers and %d pages that wait; set are %d and at most %d", m.Name, m.Workers, m.Queue, workers, queue)
				}
			}
			if req.URL.Path == "/robots.txt" {
				http.NotFound(w, req)
				return
			}
			w.Header().Set("Content-Type", "text/html")
			for i := range pages {
				fmt.Fprintf(w, "<a href=/%d.html>%d</a> of %s\n", i, i, req.URL.Path)
			}
		})}
		go srv.Serve(network)
		defer srv.Close()
		testkit.Must(t, r.Cycle(t.Context()))
		s, err := r.Status()
		testkit.Must(t, err)
		if want := int64(hosts * (pages + 1)); s.Pages.Total != want || told.Load() == 0 {
			t.Errorf("%d pages, want %d; modules were seen %d times", s.Pages.Total, want, told.Load())
		}
	})
}

// The whole robot: a server that takes a request and says nothing holds up neither the
// other hosts nor, once it answers, its own pages.
func TestStalledHost(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	w := newWeb(t, "127.42.0.1", 2, 2, 5)
	quiet := make(chan struct{})
	t.Cleanup(func() { close(quiet) })
	w.tell(func(host, uri string, hit int) *answer {
		if host == "h0.web.test" && uri == "/2.html" && hit == 1 {
			<-quiet
		}
		return nil
	})
	cfg := testConfig(t, newService(t, w.seeds()...), nil)
	cfg.Network.Resolver = w.names.LocalAddr().String()
	cfg.Page.Stall = testkit.Slower * 200 * time.Millisecond // long enough for the other answers
	if err := Run(t.Context(), cfg, testLog(t)); err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"h0.web.test", "h1.web.test"} {
		for _, uri := range []string{"/1.html", "/3.html", "/4.html"} {
			if w.fetched(host, uri) != 1 {
				t.Errorf("%s%s was fetched %d times", host, uri, w.fetched(host, uri))
			}
		}
	}
	if n := w.fetched("h0.web.test", "/2.html"); n != 2 {
		t.Errorf("the page that hung was fetched %d times, want 2", n)
	}
}
