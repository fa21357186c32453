package robotd

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// TestFailingHostIsTriedAgain: a host that does not answer for hours rests, and its pages are taken
// in the same night once it has recovered. Meanwhile the status says why its visit waits, and why
// another's does.
func TestFailingHostIsTriedAgain(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	cfg := testConfig(t, newService(t), map[string]string{"www.a.test": "192.0.2.1:80", "www.b.test": "192.0.2.2:80"})
	cfg.Interval, cfg.Window, cfg.Page.Tries = time.Minute, "02:00-16:00 UTC", 1000
	var mu sync.Mutex
	failed, taken := 0, make(map[string]bool)
	var robot *Robot
	said := make(map[string]string)
	nights(t, cfg, 2, func(w http.ResponseWriter, r *http.Request) {
		now := time.Now().UTC()
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case robot == nil: // the first night is short
			linkTo(w, 0)
		case r.Host == "www.b.test": // its pages last all of the second night
			if now.Hour() == 11 && len(said) == 0 {
				s, err := robot.status(-1)
				if err != nil {
					t.Error(err)
				}
				for _, h := range s.PerHost {
					said[h.Name] = string(h.State) + ": " + h.Why
				}
				for _, h := range robot.crawler.Current().Hosts() {
					said["answer of "+h.Name] = h.NoAnswer()
				}
				said["trouble"] = robot.troubles()[wire.TroubleHosts]
				if s.LeftOut != 1 {
					t.Errorf("%d hosts are told to be left out, want the one that rests", s.LeftOut)
				}
			}
			if r.URL.Path == "/" {
				linkTo(w, 1000)
			}
		case now.Hour() < 12 && r.URL.Path != "/": // ten hours of trouble, and no word when to come again
			failed++
			panic(http.ErrAbortHandler) // hangs up
		default:
			taken[r.URL.Path] = true
			linkTo(w, 5)
		}
	}, func(r *Robot, _ int) {
		mu.Lock()
		defer mu.Unlock()
		robot = r
	})
	if failed < giveUp || failed > 20 || len(taken) != 6 {
		t.Errorf("%d visits failed and %d pages were taken, want at least %d, at most 20, and 6", failed, len(taken), giveUp)
	}
	if !strings.HasPrefix(said["www.a.test"], "left out: rests, ") {
		t.Errorf("the status says of the host that fails: %q", said["www.a.test"])
	}
	if said["answer of www.a.test"] != "no_answer" || said["answer of www.b.test"] != "" || !strings.HasPrefix(said["trouble"], "1 of 2 hosts ") {
		t.Errorf("the manager is told %q", said)
	}
}

// TestLostNameIsLookedUpAgain: a host whose name had no address when the cycle began is visited in
// that cycle once it has one.
func TestLostNameIsLookedUpAgain(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	w := newWeb(t, "127.46.0.1", 2, 2, 1)
	seeds := w.seeds()
	const lost, other = "h0.web.test", "h1.web.test"
	addr := w.home[lost]
	w.mu.Lock()
	delete(w.home, lost)
	w.mu.Unlock()
	found := make(chan struct{})
	var once sync.Once
	w.tell(func(host, uri string, _ int) *answer {
		switch {
		case host == lost:
			once.Do(func() { close(found) })
		case uri == "/": // the cycle goes on for as long as this page takes
			w.move(lost, addr)
			select {
			case <-found:
			case <-t.Context().Done():
			}
		}
		return nil
	})
	cfg := testConfig(t, newService(t, seeds...), nil)
	cfg.Network.Resolver, cfg.Network.Relearn = w.names.LocalAddr().String(), 20*time.Millisecond
	r, err := New(cfg, testLog(t))
	testkit.Must(t, err)
	defer r.Close()
	testkit.Must(t, r.Cycle(t.Context()))
	if w.fetched(lost, "/") != 1 || w.fetched(other, "/") != 1 {
		t.Errorf("%d and %d visits, want one each", w.fetched(lost, "/"), w.fetched(other, "/"))
	}
}

// TestMovedHostWaitsForTheManager: another robot may be visiting the address to which a host has
// moved. So the host is visited where it was until the manager has been told, and then at the other
// address.
func TestMovedHostWaitsForTheManager(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	w := newWeb(t, "127.48.0.1", 2, 1, 2000)
	const host = "h0.web.test"
	s := newService(t, w.seeds()...)
	cfg := testConfig(t, s, nil)
	cfg.Once, cfg.Interval = false, 5*time.Millisecond
	cfg.Network.Resolver, cfg.Network.Relearn = w.names.LocalAddr().String(), 10*time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg, testLog(t)) }()
	visits := func(n int) int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.doors[w.addrs[n]].runs
	}
	testkit.Until(t, "visits", func() bool { return visits(0) > 5 })
	s.locked(func() { s.away = true })
	w.move(host, w.addrs[1])
	before := visits(0)
	testkit.Until(t, "visits at the old address", func() bool { return visits(0) > before+20 })
	if n := visits(1); n > 0 {
		t.Errorf("%d visits at an address of which the manager does not know", n)
	}
	s.locked(func() { s.away = false })
	testkit.Until(t, "visits at the new address", func() bool { return visits(1) > 0 })
	told := 0
	s.locked(func() { told = s.calls[wire.PathAddresses] })
	if told == 0 {
		t.Error("the manager was not told")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// hangsUpAtTwo stands for a server that hangs up without a byte, at two pages only.
const hangsUpAtTwo = "hangs up at two pages"

// TestBrokenProgramIsNotABrokenServer: twelve pages in a row that fail hold up the forty behind
// them only if it is the server that fails or asks for fewer visits. The intervals between visits
// show it.
func TestBrokenProgramIsNotABrokenServer(t *testing.T) {
	t.Parallel()
	const good, more = 5, 20
	for answer, server := range map[string]bool{
		"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n": false,
		"HTTP/1.1 501 Not Implemented\r\n\r\n":                            false,
		"HTTP/1.1 502 Bad Gateway\r\n\r\n<p>no":                           false,
		"HTTP/1.1 404 Not Found\r\n\r\n":                                  false,
		"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncut":               false,
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 100_000):           false,
		"HTTP/1.1 503 Service Unavailable\r\n\r\n":                        true,
		"HTTP/1.1 429 Too Many Requests\r\n\r\n":                          true,
		"":                                                                true,
		hangsUpAtTwo:                                                      false,
	} {
		t.Run(answer[:min(len(answer), 30)], func(t *testing.T) {
			bad := 12
			if answer == hangsUpAtTwo {
				answer, bad = "", 2
			}
			cfg := testConfig(t, newService(t), map[string]string{"www.a.test": "192.0.2.1:80"})
			cfg.Interval, cfg.Window = 20*time.Second, "02:00-08:00 UTC"
			var mu sync.Mutex
			var visits []time.Time
			taken, longest := 0, time.Duration(0)
			night(t, cfg, func(_, path string, n int) string {
				mu.Lock()
				defer mu.Unlock()
				visits = append(visits, time.Now())
				if n := len(visits); n > 1 {
					longest = max(longest, visits[n-1].Sub(visits[n-2]))
				}
				var body strings.Builder
				switch {
				case path == "/robots.txt":
					return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
				case strings.HasPrefix(path, "/cgi/"):
					return answer
				case path == "/":
					for i := range good + bad + more {
						folder := "page"
						if i >= good && i < good+bad {
							folder = "cgi"
						}
						fmt.Fprintf(&body, "<a href=/%s/%d>x</a> ", folder, i)
					}
				default:
					taken++
					fmt.Fprintf(&body, "<p>page %s", path)
				}
				return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s", body.Len(), body.String())
			}, nil)
			night := visits[len(visits)-1].Sub(visits[0])
			t.Logf("%d good pages in %v, %d visits; the longest interval is %v", taken, night, len(visits), longest)
			if !server && (taken != good+more || longest != cfg.Interval) {
				t.Errorf("%d good pages, the longest interval is %v; want %d, and %v", taken, longest, good+more, cfg.Interval)
			}
			if server && longest < 30*cfg.Interval {
				t.Errorf("the longest interval is %v: the server gets no rest", longest)
			}
		})
	}
}
