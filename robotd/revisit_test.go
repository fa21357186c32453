package robotd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/robotd/config"
)

// changing is a host whose pages change at random, each at a rate of its own. It knows when the
// robot's copy of a page was the page.
type changing struct {
	rates []float64 // changes a day
	start time.Time

	mu      sync.Mutex
	changes [][]float64 // days at which each page changes
	copies  []float64   // day of the last visit to each
	visits  []int       // to each since counting began
	nights  map[int]int // visits by day
	fresh   float64     // days for which copies were fresh, since counting began
	from    float64     // the day on which counting begins
}

func newChanging(rates []float64, days float64, from float64) *changing {
	rng := rand.New(rand.NewPCG(7, 8))
	c := &changing{
		rates: rates, start: time.Date(2004, 1, 1, 0, 0, 0, 0, time.UTC), changes: make([][]float64, len(rates)),
		copies: make([]float64, len(rates)), visits: make([]int, len(rates)), nights: make(map[int]int), from: from,
	}
	for i, rate := range rates {
		c.copies[i] = math.NaN()
		for at := rng.ExpFloat64() / rate; at < days; at += rng.ExpFloat64() / rate {
			c.changes[i] = append(c.changes[i], at)
		}
	}
	return c
}

// version counts a page's changes by a day.
func (c *changing) version(body int, day float64) (n int) {
	for n < len(c.changes[body]) && c.changes[body][n] <= day {
		n++
	}
	return n
}

// freshFor is for how long, from the day counting begins to another, the copy of some day was
// fresh.
func (c *changing) freshFor(body int, copied, to float64) float64 {
	end := to
	if n := c.version(body, copied); n < len(c.changes[body]) {
		end = min(end, c.changes[body][n])
	}
	return max(0, end-max(copied, c.from))
}

func (c *changing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.Header().Set("Content-Type", "text/html")
	var body int
	switch _, err := fmt.Sscanf(r.URL.Path, "/%d.html", &body); {
	case r.URL.Path == "/":
		for i := range c.rates {
			fmt.Fprintf(w, "<a href=/%d.html>%d</a>\n", i, i)
		}
		return
	case err != nil:
		http.NotFound(w, r)
		return
	}
	day := time.Since(c.start).Hours() / 24
	if !math.IsNaN(c.copies[body]) {
		c.fresh += c.freshFor(body, c.copies[body], day)
	}
	c.copies[body] = day
	c.nights[int(day)]++
	if day >= c.from {
		c.visits[body]++
	}
	fmt.Fprintf(w, "page %d, version %d", body, c.version(body, day))
}

// freshness is the share of fresh copies since counting began, as the server saw it.
func (c *changing) freshness(to float64) float64 {
	sum := c.fresh
	for body, copied := range c.copies {
		if !math.IsNaN(copied) {
			sum += c.freshFor(body, copied, to)
		}
	}
	return sum / float64(len(c.rates)) / (to - c.from)
}

// inTurn is the freshness that visits to one page after the other would have had, as many in each
// night.
func (c *changing) inTurn(to float64) float64 {
	next, fresh := 0, 0.0
	copied := make([]float64, len(c.rates))
	for i := range copied {
		copied[i] = math.NaN()
	}
	for day := range int(to) {
		for range c.nights[day] {
			if !math.IsNaN(copied[next]) {
				fresh += c.freshFor(next, copied[next], float64(day)+2.0/24)
			}
			copied[next] = float64(day) + 2.0/24
			next = (next + 1) % len(copied)
		}
	}
	for i := range copied {
		fresh += c.freshFor(i, copied[i], to)
	}
	return fresh / float64(len(c.rates)) / (to - c.from)
}

func tightConfig(t *testing.T) config.Config {
	cfg := testConfig(t, newService(t), map[string]string{"www.a.test": "192.0.2.1:80"})
	cfg.Interval, cfg.Window = 10*time.Second, "02:00-02:11 UTC"
	return cfg
}

// A night has room for some 60 of 200 pages. What the daemon learns makes its copies fresher than
// visits in turn would be; pages that change often are visited more often, and none is forgotten.
func TestRevisitsFollowChanges(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	const days, from = 44, 14
	var rates []float64
	for i := range 200 {
		rates = append(rates, []float64{0.004, 0.004, 0.02, 0.6}[i%4])
	}
	rates[0] = 30 // cannot be followed
	c := newChanging(rates, days, from)
	cfg := tightConfig(t)
	cfg.Revisit.AtLeast = 20 * 24 * time.Hour
	nights(t, cfg, days, c.ServeHTTP, nil)
	ours, inTurn := c.freshness(days), c.inTurn(days)
	often, seldom, none := 0, 0, 0
	for i, n := range c.visits {
		if n == 0 {
			none++
		}
		switch i % 4 {
		case 0, 1:
			seldom += n
		case 3:
			often += n
		}
	}
	t.Logf("freshness %.4f, %.4f in turn; %.1f visits to each page that changes often, %.1f to the others; hopeless: %d",
		ours, inTurn, float64(often)/50, float64(seldom)/100, c.visits[0])
	if ours < 1.03*inTurn {
		t.Errorf("freshness %.4f, visits in turn have %.4f", ours, inTurn)
	}
	if often < seldom { // half as many pages
		t.Errorf("%d visits to 50 pages that change often, %d to 100 that hardly change", often, seldom)
	}
	if none > 0 {
		t.Errorf("%d pages were not visited in %d days", none, days-from)
	}
	for day, n := range c.nights {
		if n > 66 {
			t.Errorf("%d visits in night %d", n, day)
		}
	}
}

// A host that fits into its night is visited whole, every night.
func TestSmallHostsAreVisitedWhole(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const days = 4
	for _, by := range []string{"optimal", "sqrt", "paper", "all"} {
		c := newChanging([]float64{0.1, 0.1, 0.1, 1, 1, 0.01}, days, 0)
		cfg := tightConfig(t)
		cfg.Revisit.By = by
		nights(t, cfg, days, c.ServeHTTP, nil)
		for body, n := range c.visits {
			if n != days {
				t.Errorf("%s: page %d was visited %d times in %d days", by, body, n, days)
			}
		}
	}
}

// Pages that nobody came to in one night come first in the next, though nothing leads to them
// again.
func TestNewPagesOutlastTheNight(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const days = 6
	c := newChanging(make([]float64, 200), 0, 0)
	nights(t, tightConfig(t), days, c.ServeHTTP, func(_ *Robot, day int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		seen := 0
		for _, n := range c.visits {
			seen += min(n, 1)
		}
		if want := min(200, 60*(day+1)); seen < want {
			t.Errorf("after night %d %d pages were visited, want %d", day+1, seen, want)
		}
	})
}

// linked is a host of 400 pages whose start links to all, and whose last 40 have links from all the
// others.
type linked struct {
	mu      sync.Mutex
	popular map[string]bool // those of them that were visited
}

func (l *linked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.Header().Set("Content-Type", "text/html")
	first, body := 360, 0
	if r.URL.Path == "/" {
		first = 0
	} else if _, err := fmt.Sscanf(r.URL.Path, "/%d.html", &body); err != nil {
		http.NotFound(w, r)
		return
	} else if body >= first {
		l.popular[r.URL.Path] = true
	}
	for i := first; i < 400; i++ {
		fmt.Fprintf(w, "<a href=/%d.html>%d</a>\n", i, i)
	}
}

// Of the new pages that a night has no room for, those with most links to them come first in the
// next.
func TestPagesWithManyLinksComeFirst(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	l := &linked{popular: make(map[string]bool)}
	nights(t, tightConfig(t), 2, l.ServeHTTP, func(_ *Robot, day int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if n := len(l.popular); day == 0 && n > 0 {
			t.Errorf("the first night, which knows no links, visited %d of the last pages", n)
		} else if day == 1 && n < 35 { // in the order of depth and keys it would be 7
			t.Errorf("after the second night %d of the 40 pages with most links were visited", n)
		}
	})
}

// hourly is a server that is quickest at one hour, 05:00 for the first host and 03:00 for the
// second.
type hourly struct {
	mu    sync.Mutex
	hours map[string]map[int]int // visits by host and hour, since counting began
	from  time.Time
}

func (s *hourly) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	quick := map[string]int{"www.a.test": 5, "www.b.test": 3}[r.Host]
	hour := time.Now().UTC().Hour()
	s.mu.Lock()
	if time.Now().After(s.from) {
		s.hours[r.Host][hour]++
	}
	s.mu.Unlock()
	time.Sleep(300*time.Millisecond + time.Duration(max(hour-quick, quick-hour))*200*time.Millisecond)
	w.Header().Set("Content-Type", "text/html")
	for i := range 6 {
		fmt.Fprintf(w, "<a href=/%d.html>%s</a>\n", i, strings.Repeat("x", 100))
	}
}

// The visits of small hosts move to the hours at which their servers are quick.
func TestVisitsMoveToQuickHours(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	const days, learning = 36, 20
	cfg := testConfig(t, newService(t), map[string]string{"www.a.test": "192.0.2.1:80", "www.b.test": "192.0.2.2:80"})
	cfg.Interval, cfg.Window = 2*time.Minute, "02:00-08:00 UTC"
	s := &hourly{
		hours: map[string]map[int]int{"www.a.test": {}, "www.b.test": {}},
		from:  time.Date(2004, 1, 1+learning, 0, 0, 0, 0, time.UTC),
	}
	nights(t, cfg, days, s.ServeHTTP, nil)
	for host, quick := range map[string]int{"www.a.test": 5, "www.b.test": 3} {
		all := 0
		for hour, n := range s.hours[host] {
			if hour < 2 || hour >= 8 {
				t.Errorf("%s was visited at %d:00", host, hour)
			}
			all += n
		}
		t.Logf("%s: %v", host, s.hours[host])
		if n := s.hours[host][quick]; n < all/2 {
			t.Errorf("%s: %d of %d visits at its quick hour", host, n, all)
		}
	}
}

// TestOrderedVisit shows that a host is visited again between two cycles when an operator orders
// it, with what its pages link to since, and that the manager is told that the order has come.
func TestOrderedVisit(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	site := newSite(t, "127.0.0.83")
	site.page("www.a.test/", "text/html", []byte(`<a href="/old.html">old</a>`))
	site.page("www.a.test/old.html", "text/html", []byte("old"))
	s := newService(t, "http://www.a.test/")
	cfg := testConfig(t, s, map[string]string{"www.a.test": site.addr})
	cfg.Once, cfg.Cycle, cfg.Heartbeat = false, time.Hour, 20*time.Millisecond
	stop := runDaemon(t, cfg)
	defer stop()
	testkit.Until(t, "the first cycle is over", func() bool {
		return site.seen("www.a.test/old.html") == 1
	})
	testkit.Until(t, "the robot has nothing left", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.beats) > 0 && s.beats[len(s.beats)-1].Phase == wire.PhaseIdle
	})

	site.page("www.a.test/", "text/html", []byte(`<a href="/old.html">old</a> <a href="/new.html">new</a>`))
	s.mu.Lock()
	ordered := false
	s.orders = func(hb wire.Heartbeat) wire.Orders {
		o := wire.Orders{List: hb.List}
		ordered = ordered || slices.Contains(hb.Taken, "www.a.test")
		if !ordered {
			o.Visits = []string{"www.a.test", "www.elsewhere.test"}
		}
		return o
	}
	s.mu.Unlock()
	testkit.Until(t, "the host is visited again", func() bool {
		return site.seen("www.a.test/") == 2 && site.seen("www.a.test/old.html") == 2 && site.seen("www.a.test/new.html") == 1
	})
	testkit.Until(t, "the manager knows that the order has come", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return ordered
	})
}
