package robotd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/robotd/config"
)

// chains is a web whose hosts have so many pages each, every one with a link to the next.
type chains struct {
	pages map[string]int

	mu   sync.Mutex // guards hits
	hits map[string]int
}

func (c *chains) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.hits[r.Host+r.URL.Path]++
	c.mu.Unlock()
	n := 0
	fmt.Sscanf(r.URL.Path, "/%d.html", &n)
	if n >= c.pages[r.Host] || strings.HasSuffix(r.URL.Path, ".txt") {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, "<title>Page %d of %s</title><a href=/%d.html>next</a>", n, r.Host, n+1)
}

func (c *chains) seen(url string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hits[url]
}

// working lets the cycles of a robot run in a bubble, beside do, by the lists and orders of a
// manager in it, which way leads to.
func working(t *testing.T, cfg config.Config, web *chains, way http.Handler, do func(r *Robot)) {
	t.Helper()
	cfg.Once = false
	web.hits = make(map[string]int)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2004, 1, 1, 0, 0, 0, 0, time.UTC)))
		network := newPipes()
		srv := &http.Server{Handler: web}
		go srv.Serve(network)
		defer srv.Close()
		r, err := newRobot(cfg, testLog(t), outside{dial: network.dial, web: &http.Client{Transport: direct{way}}, rounds: fewRounds()})
		testkit.Must(t, err)
		defer func() { testkit.Must(t, r.Close()) }()
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		running.Go(func() {
			if err := r.runCycles(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("the cycles end with %v", err)
			}
		})
		do(r)
	})
}

// A distance that the manager has asked for is measured although the cycle ends meanwhile, and
// another begins.
func TestProbeOutlastsTheCycle(t *testing.T) {
	t.Parallel()
	manager := newService(t, "http://www.a.test/")
	manager.orders = func(hb wire.Heartbeat) (o wire.Orders) {
		if len(manager.beats) == 1 {
			o.Probes = []wire.ProbeAsk{{URL: "http://www.far.test/", Files: 10, ForMS: time.Hour.Milliseconds(), Address: "192.0.2.2"}}
		}
		return o
	}
	cfg := testConfig(t, manager, map[string]string{"www.a.test": "192.0.2.1:80", "www.b.test": "192.0.2.1:80", "www.far.test": "192.0.2.2:80"})
	cfg.Interval, cfg.Heartbeat, cfg.Poll = 20*time.Second, time.Minute, time.Minute
	web := &chains{pages: map[string]int{"www.a.test": 4, "www.b.test": 4, "www.far.test": 20}}
	working(t, cfg, web, manager.Config.Handler, func(*Robot) {
		time.Sleep(3 * time.Minute)
		manager.assign("http://www.a.test/", "http://www.b.test/") // the cycle goes on
		time.Sleep(7 * time.Minute)
		var results []wire.ProbeResult
		manager.locked(func() {
			for _, hb := range manager.beats {
				if r, ok := hb.Probes["www.far.test"]; ok {
					results = append(results, r)
				}
			}
		})
		if len(results) != 1 || results[0].Files != 10 || results[0].Failed != "" || web.seen("www.far.test/robots.txt") != 1 {
			t.Errorf("the manager was told %+v; robots.txt was fetched %d times", results, web.seen("www.far.test/robots.txt"))
		}
		if web.seen("www.b.test/3.html") != 1 {
			t.Error("the second host was not collected meanwhile")
		}
	})
}

// slowly delays the answers to requests for the list, once it is armed.
type slowly struct {
	http.Handler
	armed atomic.Bool
}

func (s *slowly) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/list") && s.armed.Load() {
		time.Sleep(5 * time.Minute)
	}
	s.Handler.ServeHTTP(w, r)
}

// A host that comes while the cycle's last visits end is visited in this night.
func TestHostGainedAsTheCrawlEnds(t *testing.T) {
	t.Parallel()
	manager := newService(t, "http://www.a.test/")
	cfg := testConfig(t, manager, map[string]string{"www.a.test": "192.0.2.1:80", "www.b.test": "192.0.2.2:80"})
	cfg.Interval, cfg.Heartbeat, cfg.Poll = 20*time.Second, 0, time.Minute // one question at a time
	web := &chains{pages: map[string]int{"www.a.test": 6, "www.b.test": 2}}
	way := &slowly{Handler: manager.Config.Handler}
	working(t, cfg, web, way, func(*Robot) {
		time.Sleep(30 * time.Second)
		way.armed.Store(true)
		manager.assign("http://www.a.test/", "http://www.b.test/")
		time.Sleep(15 * time.Minute)
		way.armed.Store(false)
		if web.seen("www.a.test/5.html") != 1 {
			t.Error("the first host was not collected")
		}
		time.Sleep(10 * time.Minute)
		if web.seen("www.b.test/1.html") != 1 {
			t.Error("the host that came at the end was not collected")
		}
	})
}
