package robotd

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/internal/testkit"
)

// troubles make hosts behave by their number: redirects over hosts and addresses, answers
// that ask for patience, failures, connections that break.
func (w *web) troubles() {
	redirect := func(to string) *answer { return &answer{http.StatusFound, http.Header{"Location": {to}}, nil} }
	w.tell(func(host, uri string, hit int) *answer {
		n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(host, "h"), ".web.test"))
		next := fmt.Sprintf("h%d.web.test", (n+len(w.addrs))%len(w.home)) // on the same address
		other := fmt.Sprintf("h%d.web.test", (n+1)%len(w.home))
		robots := uri == "/robots.txt"
		switch {
		case n%8 == 1 && robots:
			return redirect(w.url(next, "/robots.txt"))
		case n%8 == 2 && robots:
			return redirect(w.url(other, "/robots.txt"))
		case n%8 == 3 && robots && hit < 3:
			return &answer{http.StatusServiceUnavailable, nil, nil}
		case n%8 == 4 && uri == "/3.html":
			return redirect(w.url(next, "/1.html"))
		case n%8 == 5 && uri == "/3.html":
			return redirect(w.url(other, "/1.html"))
		case n%8 == 6 && uri == "/2.html" && hit == 1:
			return &answer{http.StatusTooManyRequests, http.Header{"Retry-After": {"0"}}, nil}
		case n%8 == 7 && uri == "/2.html" && hit == 1:
			return &answer{}
		}
		return nil
	})
}

// Hundreds of hosts, several to an address, with everything that goes wrong, a robot that is
// killed and started again, and hosts that move meanwhile: no address ever has two
// visitors, nor one before the interval is over; and every page is in the batches.
//
// With SHEAF_TEST_FULL=1 it is 164 hosts on 41 addresses.
func TestManners(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	addrs, hosts := 11, 44
	if testkit.Full() {
		addrs, hosts = 41, 164
	}
	const pages = 6
	w := newWeb(t, "127.40.0.1", addrs, hosts, pages)
	w.troubles()
	s := newService(t, w.seeds()...)
	cfg := testConfig(t, s, nil)
	cfg.Interval = 20 * time.Millisecond
	cfg.Network.Resolver, cfg.Network.Relearn = w.names.LocalAddr().String(), 50*time.Millisecond
	robot := startRobot(t, cfg)
	for kill := range 3 {
		testkit.Until(t, "a quarter of the visits", func() bool { return w.total() >= (kill+1)*hosts*pages/4 })
		robot.Kill()
		for i := kill; i < hosts; i += 10 {
			w.move(fmt.Sprintf("h%d.web.test", i), w.addrs[(i*7+kill)%addrs])
		}
		robot = startRobot(t, cfg)
	}
	for i := 5; i < hosts; i += 10 { // while it runs
		w.move(fmt.Sprintf("h%d.web.test", i), w.addrs[(i*3)%addrs])
	}
	if err := robot.Ended(); err != nil {
		t.Fatal(err)
	}
	w.check(cfg.Interval)
	w.checkForbidden()
	for i := range hosts {
		host := fmt.Sprintf("h%d.web.test:%s", i, w.port)
		found := 0
		for b := range s.all() {
			for _, c := range s.cells(b, host) {
				if c.Kind == archive.Page || c.Status/100 == 3 {
					found++
				}
			}
		}
		if found < pages {
			t.Errorf("%d pages of %s are in the batches, want %d", found, host, pages)
		}
	}
}

func (w *web) total() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, hits := range w.hits {
		n += hits
	}
	return n
}

// The paper's Keep-Alive runs: several pages come over one connection, no more than the
// setting says, and the interval lies between the runs.
func TestRuns(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const addrs, hosts, pages = 6, 12, 20
	w := newWeb(t, "127.41.0.1", addrs, hosts, pages)
	w.troubles()
	cfg := testConfig(t, newService(t, w.seeds()...), nil)
	cfg.Interval, cfg.Run.Pages = 20*time.Millisecond, 5
	cfg.Network.Resolver = w.names.LocalAddr().String()
	if err := Run(t.Context(), cfg, testLog(t)); err != nil {
		t.Fatal(err)
	}
	if longest := w.check(cfg.Interval); longest != 5 {
		t.Errorf("the longest run had %d pages, want 5", longest)
	}
	w.checkForbidden()
	for host := range w.home {
		if w.fetched(host, fmt.Sprintf("/%d.html", pages-1)) == 0 {
			t.Errorf("%s was not fetched whole", host)
		}
	}
}

// The same from the side of the shared folder's synthetic web, by its own count: hosts of which
// four share an address, failures, redirects. With SHEAF_TEST_FULL=1 it is 400 hosts and an
// interval of 200 ms; SHEAF_TEST_MANNERS_HOSTS sets another number of hosts.
func TestMannersSynthweb(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	t.Parallel()
	hosts, interval := 80, 50*time.Millisecond
	if testkit.Full() {
		hosts, interval = 400, 200*time.Millisecond
	}
	if text := os.Getenv("SHEAF_TEST_MANNERS_HOSTS"); text != "" {
		hosts, _ = strconv.Atoi(text)
	}
	web := newSynthweb(t, "-hosts", fmt.Sprint(hosts), "-ips", fmt.Sprint(hosts/4), "-base", "127.50.0.1", "-pages", "3", "-names", "-median", "2",
		"-predir", "0.2", "-p503", "0.02", "-p429", "0.02", "-retry-after", "1")
	names := make(map[string]string)
	for i := range hosts {
		n := i % (hosts / 4)
		names[fmt.Sprintf("h%d.synth.test", i)] = fmt.Sprintf("127.50.%d.%d", (n+1)/256, (n+1)%256)
	}
	cfg := testConfig(t, newService(t, web.seeds...), names)
	cfg.Interval, cfg.Concurrency = interval, 500
	robot := startRobot(t, cfg)
	if err := robot.Ended(); err != nil {
		t.Fatal(err)
	}
	st := web.stats()
	t.Logf("%+v", st)
	if st.ByIP.N != hosts/4 || st.ByIP.MaxConcurrency != 1 || st.ByIP.MinGap < cfg.Interval.Seconds() {
		t.Errorf("%d addresses, at most %d visitors at once, shortest gap %v s; want %d, 1, at least %v", st.ByIP.N, st.ByIP.MaxConcurrency, st.ByIP.MinGap, hosts/4, cfg.Interval)
	}
	if st.ByHost.MaxConcurrency != 1 || st.Private != 0 || st.Unique < st.Total*98/100 {
		t.Errorf("%+v", st)
	}
}
