package robotd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/robotd/batch"
	"sheaf/robotd/config"
)

// restless is a host whose pages change at set times. It knows when it was visited.
type restless struct {
	mu      sync.Mutex
	start   time.Time
	changes map[string][]time.Duration // by path, since start
	visits  map[string][]time.Duration
	all     []time.Duration
	front   string // what the top page shows
}

func (s *restless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(s.start)
	s.all = append(s.all, now)
	w.Header().Set("Content-Type", "text/html")
	switch changes, ok := s.changes[r.URL.Path]; {
	case ok:
		s.visits[r.URL.Path] = append(s.visits[r.URL.Path], now)
		n, _ := slices.BinarySearch(changes, now+1)
		fmt.Fprintf(w, "<title>%s</title>version %d", r.URL.Path, n)
	case r.URL.Path == "/":
		fmt.Fprint(w, s.front)
	case r.URL.Path == "/robots.txt":
		fmt.Fprint(w, "User-agent: *\nDisallow: /private\n")
	default:
		http.NotFound(w, r)
	}
}

// delays is how long each change after from waited to be seen; one that was never seen waits until
// the end.
func (s *restless) delays(path string, from, end time.Duration) (list []time.Duration) {
	for _, at := range s.changes[path] {
		if at < from {
			continue
		}
		i, _ := slices.BinarySearch(s.visits[path], at)
		seen := end
		if i < len(s.visits[path]) {
			seen = s.visits[path][i]
		}
		list = append(list, seen-at)
	}
	slices.Sort(list)
	return list
}

func (s *restless) count(path string, from, to time.Duration) (n int) {
	for _, at := range s.visits[path] {
		if from <= at && at < to {
			n++
		}
	}
	return n
}

// days lets the daemon's cycles run for a time in a bubble, as nights does, with its chores between
// cycles too. It is stopped at each of the given times, as by a kill, and begun anew.
func days(t *testing.T, cfg config.Config, long time.Duration, kills []time.Duration, orders []wire.WatchOrder, site *restless) {
	t.Helper()
	cfg.Once = false
	var seeds []string
	for host := range cfg.Network.Hosts {
		seeds = append(seeds, "http://"+host+"/")
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2004, 1, 1, 0, 0, 0, 0, time.UTC)))
		site.start, site.visits = time.Now(), make(map[string][]time.Duration)
		network := newPipes()
		srv := &http.Server{Handler: site}
		go srv.Serve(network)
		defer srv.Close()
		for _, until := range append(kills, long) {
			r := inBubble(t, cfg, network, seeds)
			testkit.Must(t, r.records.Watched.Set("1", orders))
			ctx, stop := context.WithTimeout(t.Context(), time.Until(site.start.Add(until)))
			if err := r.runCycles(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the cycles end with %v", err)
			}
			stop()
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func regularly(every, first, until time.Duration) (list []time.Duration) {
	for at := first; at < until; at += every {
		list = append(list, at)
	}
	return list
}

func watchOf(kind, url string) wire.WatchOrder {
	return wire.WatchOrder{Kind: kind, Host: "www.a.test", URL: url}
}

func restlessConfig(t *testing.T) config.Config {
	cfg := testConfig(t, newService(t), map[string]string{"www.a.test": "192.0.2.1:80"})
	cfg.Interval, cfg.Window = 20*time.Second, "00:00-24:00 UTC"
	cfg.Heartbeat = 0
	return cfg
}

// TestWatchedPagesComeAtTheirPace: pages that are watched come within the day, as often as they
// change and no oftener than the setting lets them, across kills of the daemon; others come once a
// day. Each change makes an express batch within minutes.
func TestWatchedPagesComeAtTheirPace(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	t.Parallel()
	const from, long = 10 * time.Hour, 34 * time.Hour // counted is a day of them
	site := &restless{
		front: `<a href=/hourly.html>1</a> <a href=/daily.html>2</a> <a href=/still.html>3</a> <a href=/other.html>4</a>`,
		changes: map[string][]time.Duration{
			"/hourly.html": regularly(time.Hour, 7*time.Minute, long),
			"/daily.html":  regularly(24*time.Hour, 15*time.Hour, long),
			"/burst.html":  regularly(20*time.Minute, 18*time.Hour, 21*time.Hour),
			"/still.html":  nil,
			"/other.html":  regularly(time.Hour, 7*time.Minute, long),
		},
	}
	cfg := restlessConfig(t)
	var orders []wire.WatchOrder
	for _, path := range []string{"hourly", "daily", "burst", "still"} {
		orders = append(orders, watchOf(wire.WatchURL, "http://www.a.test/"+path+".html"))
	}
	orders = append(orders, watchOf(wire.WatchURL, "http://www.a.test/private/news.html"))
	days(t, cfg, long, []time.Duration{16 * time.Hour, 26*time.Hour + 13*time.Minute}, orders, site)
	for path := range site.changes {
		delays := site.delays(path, from, long)
		visits := site.count(path, from, long)
		if len(delays) == 0 {
			t.Logf("%s: %d visits in a day", path, visits)
			continue
		}
		t.Logf("%s: %d visits in a day for %d changes; delay median %v, longest %v", path, visits, len(delays), delays[len(delays)/2], delays[len(delays)-1])
	}
	if d := site.delays("/hourly.html", from, long-time.Hour); d[len(d)/2] > 15*time.Minute || d[len(d)*9/10] > time.Hour {
		t.Errorf("hourly changes wait for %v", d)
	}
	if n := site.count("/hourly.html", from, long); n > 24*8 {
		t.Errorf("%d visits for 24 hourly changes", n)
	}
	if n := site.count("/daily.html", from, long); n < 2 || n > 14 {
		t.Errorf("%d visits in a day to a page that changes daily", n)
	}
	if n := site.count("/still.html", from, long); n > 6 {
		t.Errorf("%d visits in a day to a page that never changes", n)
	}
	if n := site.count("/other.html", 0, long); n != 2 {
		t.Errorf("a page that nobody watches was visited %d times in two cycles", n)
	}
	for path, visits := range site.visits {
		for i := 1; i < len(visits); i++ {
			if visits[i]-visits[i-1] < cfg.Watch.Every-time.Minute {
				t.Errorf("%s was visited at %v and again at %v", path, visits[i-1], visits[i])
			}
		}
	}
	for i := 1; i < len(site.all); i++ {
		if site.all[i]-site.all[i-1] < cfg.Interval {
			t.Errorf("the host was visited at %v and again at %v", site.all[i-1], site.all[i])
		}
	}
	if _, ok := site.visits["/private/news.html"]; ok {
		t.Error("a page that robots.txt forbids was visited because it is watched")
	}
	express(t, cfg, site)
}

// TestWatchedPagesByThePaper: by the rule of the paper a watched page is visited once more on each
// day whose visits have all found a change, and one that does not change once a day. No page is
// visited twice where the cycle and the rule meet, also after kills.
func TestWatchedPagesByThePaper(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const nights = 7
	site := &restless{changes: map[string][]time.Duration{
		"/hourly.html": regularly(time.Hour, 7*time.Minute, nights*24*time.Hour),
		"/daily.html":  regularly(24*time.Hour, 15*time.Hour, nights*24*time.Hour),
		"/still.html":  nil, "/quiet.html": nil, "/calm.html": nil,
	}}
	cfg := restlessConfig(t)
	cfg.Revisit.By = "paper"
	var orders []wire.WatchOrder
	for path := range site.changes {
		site.front += "<a href=" + path + ">x</a>"
		orders = append(orders, watchOf(wire.WatchURL, "http://www.a.test"+path))
	}
	days(t, cfg, nights*24*time.Hour, []time.Duration{50 * time.Hour, 99*time.Hour + 13*time.Minute}, orders, site)
	for day := range nights {
		from := time.Duration(day) * 24 * time.Hour
		count := func(path string) int { return site.count(path, from, from+24*time.Hour) }
		if n := count("/hourly.html"); n < day || n > day+2 {
			t.Errorf("day %d: %d visits to a page that always changes, want about %d", day+1, n, day+1)
		}
		if n := count("/daily.html"); n < 1 || n > 3 {
			t.Errorf("day %d: %d visits to a page that changes daily", day+1, n)
		}
		for path, changes := range site.changes {
			if n := count(path); changes == nil && n != 1 {
				t.Errorf("day %d: %d visits to %s, which does not change", day+1, n, path)
			}
		}
	}
	for path, visits := range site.visits {
		for i := 1; i < len(visits); i++ {
			if visits[i]-visits[i-1] < cfg.Watch.Every {
				t.Errorf("%s was visited at %v and again at %v", path, visits[i-1], visits[i])
			}
		}
	}
	for i := 1; i < len(site.all); i++ {
		if site.all[i]-site.all[i-1] < cfg.Interval {
			t.Errorf("the host was visited at %v and again at %v", site.all[i-1], site.all[i])
		}
	}
}

// express looks at the batches: each change that was seen went into an express one within minutes.
func express(t *testing.T, cfg config.Config, site *restless) {
	t.Helper()
	store, err := batch.Open(cfg.DataDir, 1, batch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	spool, err := store.Spool()
	if err != nil {
		t.Fatal(err)
	}
	var made []time.Duration
	ordinary := 0
	for _, b := range spool {
		m, err := wire.PeekManifest(b.Signed)
		if err != nil {
			t.Fatal(err)
		}
		if m.Express {
			made = append(made, m.Created.Sub(site.start))
		} else {
			ordinary++
		}
	}
	if ordinary > 4 {
		t.Errorf("%d batches beside the %d express ones in two cycles", ordinary, len(made))
	}
	slices.Sort(made)
	for path, changes := range site.changes {
		if path == "/other.html" {
			continue
		}
		for _, at := range changes {
			i, _ := slices.BinarySearch(site.visits[path], at)
			if i == len(site.visits[path]) {
				continue
			}
			seen := site.visits[path][i]
			j, _ := slices.BinarySearch(made, seen-time.Second)
			if j == len(made) || made[j]-seen > cfg.Express+time.Minute {
				t.Errorf("%s changed at %v, was seen at %v, and no express batch followed", path, at, seen)
			}
		}
	}
}
