package robotd

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/robotd/config"
)

// site is one web server on an address of its own that remembers who came when.
type site struct {
	*httptest.Server
	addr string

	mu      sync.Mutex // guards all below
	pages   map[string]answer
	robots  string
	absent  map[string]answer // by host, to what is not there
	hits    map[string]int    // by host and path
	holding int               // requests after so many wait for held; 0: none does
	held    chan struct{}
	asked   int
	busy    int
	overlap bool          // two requests at once
	gap     time.Duration // the shortest between the end of one and the start of the next
	last    time.Time
}

// answer is what a site says to one path.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func newSite(t testing.TB, ip string) *site {
	t.Helper()
	l, err := net.Listen("tcp", ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{pages: make(map[string]answer), absent: make(map[string]answer), hits: make(map[string]int), gap: time.Hour, addr: l.Addr().String()}
	s.Server = httptest.NewUnstartedServer(s)
	s.Server.Listener.Close()
	s.Server.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, hold := s.enter(r)
	if hold != nil {
		<-hold
	}
	for name, values := range a.header {
		w.Header()[name] = values
	}
	if etag := w.Header().Get("ETag"); etag != "" && r.Header.Get("If-None-Match") == etag {
		a.status, a.body = http.StatusNotModified, nil
	}
	w.WriteHeader(a.status)
	// What is noted before the body is sent is noted before the visitor can have gone, however busy
	// the machine is.
	s.leave()
	w.Write(a.body)
}

func (s *site) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	s.last = time.Now()
}

// holdAfter lets requests beyond the first n wait until the returned function is called.
func (s *site) holdAfter(n int) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := make(chan struct{})
	s.holding, s.held = n, held
	return sync.OnceFunc(func() { close(held) })
}

// holds reports whether a request waits.
func (s *site) holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holding > 0 && s.asked > s.holding
}

// enter notes a request. Its answer is to wait until hold is closed, where there is one.
func (s *site) enter(r *http.Request) (a answer, hold chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked++; s.holding > 0 && s.asked > s.holding {
		hold = s.held
	}
	s.hits[r.Host+r.URL.RequestURI()]++
	s.busy++
	s.overlap = s.overlap || s.busy > 1
	if !s.last.IsZero() {
		s.gap = min(s.gap, time.Since(s.last))
	}
	if r.URL.Path == "/robots.txt" {
		return answer{http.StatusOK, http.Header{"Content-Type": {"text/plain"}}, []byte(s.robots)}, hold
	}
	a, ok := s.pages[r.Host+r.URL.RequestURI()]
	if !ok {
		a, ok = s.absent[r.Host]
	}
	if !ok {
		return answer{http.StatusNotFound, http.Header{"Content-Type": {"text/html"}}, []byte("<p>not here")}, hold
	}
	return a, hold
}

// page puts a page at a URL such as "www.a.test/index.html".
func (s *site) page(at, contentType string, body []byte, header ...string) {
	h := http.Header{"Content-Type": {contentType}}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	s.put(at, answer{http.StatusOK, h, body})
}

func (s *site) put(at string, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[at] = a
}

// fallback says what a host answers to what is not there.
func (s *site) fallback(host string, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.absent[host] = a
}

func (s *site) seen(at string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits[at]
}

// visits counts the answers to all but robots.txt.
func (s *site) visits() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for at, hits := range s.hits {
		if !strings.HasSuffix(at, "/robots.txt") {
			n += hits
		}
	}
	return n
}

// tree fills the site with n small pages, each of which links to ten others.
func (s *site) tree(host string, n int) {
	for i := range n {
		var b bytes.Buffer
		fmt.Fprintf(&b, "<title>%d</title>", i)
		for j := 10*i + 1; j <= 10*i+10 && j < n; j++ {
			fmt.Fprintf(&b, "<a href=%d.html>%d</a>\n", j, j)
		}
		at := fmt.Sprintf("%s/%d.html", host, i)
		if i == 0 {
			at = host + "/"
		}
		s.page(at, "text/html", b.Bytes())
	}
}

const interval = 2 * time.Millisecond

// giveUp is after how many failures in a row package crawl lets a host rest.
const giveUp = 8

// testConfig joins the service and returns settings for short tests.
func testConfig(t testing.TB, s *service, hosts map[string]string) config.Config {
	t.Helper()
	cfg := DefaultConfig()
	cfg.DataDir = filepath.Join(t.TempDir(), "robot")
	cfg.Contact = "https://sheaf.test/robot"
	cfg.Interval = interval
	cfg.Adapt.Max = 0
	cfg.Window = "always"
	cfg.Disk.Free = 0 // whatever else fills the disk
	cfg.Upload.Poll = 10 * time.Millisecond
	cfg.Network.Hosts = hosts
	cfg.Network.AllowPrivate = true
	cfg.Once = true
	cfg.Page.Probe = false        // tests count accesses
	cfg.Tap.Socket = config.NoTap // it would be a goroutine that no synctest can see asleep
	if name, err := Join(t.Context(), s.URL, token, cfg.DataDir); err != nil || name != "r1" {
		t.Fatalf("Join = %q, %v", name, err)
	}
	return cfg
}

func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// loggedURLs counts the exchanges in the logs that the robot handed in.
func (s *service) loggedURLs() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := make(map[string]int)
	for _, lines := range s.logs {
		for _, l := range lines {
			n[l.URL]++
		}
	}
	return n
}

func address(s string) netip.Addr { return netip.MustParseAddr(s) }
