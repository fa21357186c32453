package robotd

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// web is a small synthetic web: hosts h0.web.test, h1.web.test, …, several to an address,
// that behave well or badly by their number. It watches from the servers' side
// how it is visited, and is its own name server.
type web struct {
	t     testing.TB
	port  string
	addrs []string
	pages int // of each host
	names net.PacketConn

	mu    sync.Mutex // guards all below
	doors map[string]*door
	home  map[string]string // address by host
	hits  map[string]int    // by host and URI
	tells func(host, uri string, hit int) *answer
}

// door is one address, seen from within.
type door struct {
	busy    int
	overlap bool
	remote  string    // who came last
	end     time.Time // when the last answer was about to be complete
	gap     time.Duration
	runs    int
	longest int // requests on one connection
	inRun   int
}

// newWeb serves hosts on addrs addresses from first on.
func newWeb(t testing.TB, first string, addrs, hosts, pages int) *web {
	t.Helper()
	w := &web{
		t: t, pages: pages, port: "0", doors: make(map[string]*door),
		home: make(map[string]string), hits: make(map[string]int),
		tells: func(string, string, int) *answer { return nil },
	}
	srv := &http.Server{Handler: w, ErrorLog: log.New(io.Discard, "", 0)}
	t.Cleanup(func() { srv.Close() })
	a := netip.MustParseAddr(first)
	for range addrs {
		l, err := net.Listen("tcp", net.JoinHostPort(a.String(), w.port))
		if err != nil {
			t.Fatal(err)
		}
		w.port = portOf(t, l.Addr().String()) // the first one's is all others'
		go srv.Serve(l)
		w.addrs = append(w.addrs, a.String())
		w.doors[a.String()] = &door{gap: time.Hour}
		a = a.Next()
	}
	for i := range hosts {
		w.home[fmt.Sprintf("h%d.web.test", i)] = w.addrs[i%addrs]
	}
	w.serveNames()
	return w
}

// tell makes tells say what is answered; nil: the page.
func (w *web) tell(tells func(host, uri string, hit int) *answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tells = tells
}

// seeds are the top pages of the hosts.
func (w *web) seeds() []string {
	var urls []string
	for host := range w.home {
		urls = append(urls, w.url(host, "/"))
	}
	return urls
}

func (w *web) url(host, path string) string { return "http://" + host + ":" + w.port + path }

// move gives a host another address.
func (w *web) move(host, addr string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.home[host] = addr
}

func (w *web) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	local := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr).IP.String()
	host, _, _ := net.SplitHostPort(r.Host)
	hit := w.enter(local, r.RemoteAddr, host+r.URL.RequestURI())
	a := w.tells(host, r.URL.RequestURI(), hit)
	if a == nil {
		a = w.page(host, r.URL.Path)
	}
	for name, values := range a.header {
		out.Header()[name] = values
	}
	out.Header().Set("Content-Length", fmt.Sprint(len(a.body)))
	if a.status == 0 { // hangs up
		w.leave(local)
		panic(http.ErrAbortHandler)
	}
	out.WriteHeader(a.status)
	// What is noted before the last byte is sent is noted before the visitor can
	// have gone, however busy the machine is.
	w.leave(local)
	out.Write(a.body)
}

func (w *web) enter(local, remote, at string) (hit int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.doors[local]
	d.busy++
	d.overlap = d.overlap || d.busy > 1
	if remote == d.remote {
		d.inRun++
	} else {
		if d.runs++; d.runs > 1 {
			d.gap = min(d.gap, time.Since(d.end))
		}
		d.remote, d.inRun = remote, 1
	}
	d.longest = max(d.longest, d.inRun)
	w.hits[at]++
	return w.hits[at]
}

func (w *web) leave(local string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.doors[local].busy--
	w.doors[local].end = time.Now()
}

func (w *web) page(host, path string) *answer {
	html := http.Header{"Content-Type": {"text/html"}}
	var n int
	if path == "/robots.txt" {
		return &answer{http.StatusOK, http.Header{"Content-Type": {"text/plain"}}, []byte("User-agent: *\nDisallow: /private/\n")}
	} else if _, err := fmt.Sscanf(path, "/%d.html", &n); err != nil && path != "/" || n >= w.pages {
		return &answer{http.StatusNotFound, html, []byte("<p>not here")}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<title>%s %d</title><a href=/private/x>x</a>", host, n)
	for i := 3*n + 1; i <= 3*n+3 && i < w.pages; i++ {
		fmt.Fprintf(&b, "<a href=/%d.html>%d</a>\n", i, i)
	}
	return &answer{http.StatusOK, html, []byte(b.String())}
}

// check looks at every door.
func (w *web) check(interval time.Duration) (longest int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	least := time.Hour
	for addr, d := range w.doors {
		if d.overlap {
			w.t.Errorf("%s had two visitors at once", addr)
		}
		if d.gap < interval {
			w.t.Errorf("%s was visited again after %v, want at least %v", addr, d.gap, interval)
		}
		least, longest = min(least, d.gap), max(longest, d.longest)
	}
	w.t.Logf("%d addresses, shortest gap %v", len(w.doors), least)
	return longest
}

// checkForbidden sees to it that nobody came where the usual robots.txt forbids.
func (w *web) checkForbidden() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for at, hits := range w.hits {
		if strings.Contains(at, "/private/") {
			w.t.Errorf("%s, which robots.txt forbids, was fetched %d times", at, hits)
		}
	}
}

func (w *web) fetched(host, uri string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hits[host+uri]
}

// serveNames answers questions for A records by home.
func (w *web) serveNames() {
	var err error
	if w.names, err = new(net.ListenConfig).ListenPacket(context.Background(), "udp", "127.0.0.1:0"); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { w.names.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := w.names.ReadFrom(buf)
			if err != nil {
				return
			}
			if reply := w.answerName(buf[:n]); reply != nil {
				w.names.WriteTo(reply, from)
			}
		}
	}()
}

func (w *web) answerName(question []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) != 1 {
		return nil
	}
	m.Response, m.Authoritative, m.Additionals = true, true, nil
	q := m.Questions[0]
	w.mu.Lock()
	addr, ok := w.home[strings.TrimSuffix(q.Name.String(), ".")]
	w.mu.Unlock()
	if !ok {
		m.RCode = dnsmessage.RCodeNameError
	} else if q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
			Body:   &dnsmessage.AResource{A: netip.MustParseAddr(addr).As4()},
		}}
	}
	reply, err := m.Pack()
	if err != nil {
		return nil
	}
	return reply
}
