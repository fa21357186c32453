package fetch

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/archive"
	"sheaf/internal/page"
	"sheaf/internal/testkit"
	"sheaf/robotd/config"
)

const version = "1.2.3"

func handFetcher(t *testing.T, private bool) *Fetcher {
	return New(Options{UserAgent: "test (+http://example.jp)", AllowPrivate: private, MaxBody: 1 << 20, TempDir: t.TempDir()})
}

// site is a head and what it needs.
type site struct {
	t *testing.T
	*Head
	dir, addr string
}

func newSite(t *testing.T, lease time.Duration) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir()}
	var err error
	s.Head, err = NewHead(HeadOptions{
		Dir: s.dir, Fetcher: handFetcher(t, false), Version: version, Terms: Terms{MaxBytes: 1 << 20, Level: 6, Lease: lease}, Log: slog.New(slog.DiscardHandler),
	})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = s.Head.Close() }) // one test closes it before
	addr, err := s.Head.Listen("127.0.0.1:0")
	testkit.Must(t, err)
	s.addr = addr.String()
	return s
}

func (s *site) invite(name string) []byte {
	s.t.Helper()
	pass, err := InviteHand(s.dir, name)
	testkit.Must(s.t, err)
	return pass
}

// serve runs a hand and waits until it is connected. stop ends it as a signal does.
func (s *site) serve(name string, opt HandOptions) (stop func(), ended chan error) {
	s.t.Helper()
	if opt.Pass == nil {
		opt.Pass = s.invite(name)
	}
	if opt.Head == "" {
		opt.Head = s.addr
	}
	if opt.Fetcher == nil {
		opt.Fetcher = func(*Terms) (*Fetcher, error) { return handFetcher(s.t, true), nil }
	}
	opt.Version, opt.Turns, opt.Log = version, 10, slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	ended = make(chan error, 1)
	go func() { ended <- RunHand(ctx, opt) }()
	testkit.Until(s.t, name, func() bool { return s.has(name) })
	return cancel, ended
}

func (s *site) hands() []Hand {
	all, _ := s.Hands()
	return all
}

func (s *site) has(name string) bool {
	for _, h := range s.hands() {
		if h.Name == name {
			return true
		}
	}
	return false
}

// web serves a page at each URL.
func web(t *testing.T, h http.HandlerFunc) (url string, addr netip.AddrPort) {
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	t.Cleanup(srv.CloseClientConnections)
	return srv.URL, netip.MustParseAddrPort(srv.Listener.Addr().String())
}

func somePage(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	w.Header()["X-Raw"] = []string{"caf\xe9"}
	fmt.Fprintf(w, "<title>%s</title><a href=/next>next</a>%s", r.URL.Path, strings.Repeat("<p>some text\xe9", 50_000))
}

// A page that a hand has fetched is the page that the head would have fetched: headers, body,
// digest, links, and what a segment stores of it.
func TestPageOfAHand(t *testing.T) {
	t.Parallel()
	s := newSite(t, LeaseTime)
	url, addr := web(t, somePage)
	req := Request{URL: url + "/a", Addr: addr, Text: page.MaxText}
	_, err := s.Get(t.Context(), req)
	if KindOf(err) != Refused {
		t.Fatalf("without a hand, the head fetches itself; it may not fetch from here: %v", err)
	}
	s.serve("one", HandOptions{})
	got, err := s.Get(t.Context(), req)
	testkit.Must(t, err)
	defer got.Close()
	want, err := handFetcher(t, true).Get(t.Context(), req)
	testkit.Must(t, err)
	defer want.Close()
	if got.Status != want.Status || got.Digest != want.Digest || got.Size != want.Size || got.IP != want.IP || got.ResponseBytes != want.ResponseBytes {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	got.Header.Del("Date")
	want.Header.Del("Date")
	if !reflect.DeepEqual(got.Header, want.Header) || got.Header.Get("X-Raw") != "caf\xe9" {
		t.Errorf("header %q, want %q", got.Header, want.Header)
	}
	gotBody, err := got.Bytes(1 << 20)
	testkit.Must(t, err)
	wantBody, err := want.Bytes(1 << 20)
	testkit.Must(t, err)
	if !bytes.Equal(gotBody, wantBody) {
		t.Error("the body is another one")
	}
	found, err := want.Search(wantBody, req.URL, req.Text)
	testkit.Must(t, err)
	if got.Found == nil || !reflect.DeepEqual(got.Found.Links, found.Links) || got.Found.Title != found.Title {
		t.Errorf("found %+v\nwant %+v", got.Found, found)
	}
	var blocks bytes.Buffer
	d, err := archive.NewDeflater(6)
	testkit.Must(t, err)
	testkit.Must(t, d.Deflate(&blocks, want.HTTP, want.Body()))
	if sent, _ := io.ReadAll(got.Deflated().Blocks); !bytes.Equal(sent, blocks.Bytes()) {
		t.Error("it is not deflated as a segment stores it")
	}
	if h := s.hands()[0]; h.Pages != 1 || h.Bytes != got.ResponseBytes || h.Version != version || h.Turns != 0 || h.Most != 10 {
		t.Errorf("status: %+v", h)
	}
}

// What a request asks for reaches the server by a hand as it would from the head.
func TestRequestOfAHand(t *testing.T) {
	t.Parallel()
	s := newSite(t, LeaseTime)
	seen := make(chan string, 1)
	url, addr := web(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen <- fmt.Sprint(r.Method, r.URL, r.Header["X-Form"], r.Header["If-None-Match"], r.Header["If-Modified-Since"], r.UserAgent(), string(body))
	})
	s.serve("one", HandOptions{})
	req := Request{
		URL: url + "/f?a=b", Addr: addr, ETag: `"e"`, LastModified: "Sat, 21 Nov 2026 02:03:04 GMT",
		Header: http.Header{"X-Form": {"a", "b"}}, Post: []byte("q=\x00\xff"),
	}
	both := [2]string{}
	for i, from := range []Source{s.Head, handFetcher(t, true)} {
		resp, err := from.Get(t.Context(), req)
		testkit.Must(t, err)
		resp.Close()
		both[i] = testkit.Receive(t, "the request", seen)
	}
	if both[0] != both[1] || !strings.Contains(both[0], "POST") {
		t.Errorf("by the hand %q, by the head %q", both[0], both[1])
	}
}

// The head signs what a hand sends, since the hand has no key.
func TestHeadSignsForHands(t *testing.T) {
	t.Parallel()
	s := newSite(t, LeaseTime)
	s.opt.Fetcher.opt.Sign = func(h http.Header, scheme, host string) { h.Set("Signature", scheme+" "+host) }
	seen := make(chan string, 1)
	url, addr := web(t, func(_ http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Signature") + " " + r.Header.Get("X-Form")
	})
	s.serve("one", HandOptions{})
	header := http.Header{"X-Form": {"a"}}
	resp, err := s.Get(t.Context(), Request{URL: url, Addr: addr, Header: header})
	testkit.Must(t, err)
	resp.Close()
	if got := testkit.Receive(t, "the request", seen); got != strings.Replace(url, "://", " ", 1)+" a" || len(header) != 1 {
		t.Errorf("the server got %q; the caller's header is %v", got, header)
	}
}

// A run's pages are fetched by one hand over one connection.
func TestRunOfAHand(t *testing.T) {
	t.Parallel()
	s := newSite(t, LeaseTime)
	var connections atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(somePage))
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	for n := range 3 {
		s.serve(fmt.Sprint("hand", n), HandOptions{})
	}
	run := s.Run()
	for n := range 4 {
		resp, err := run.Get(t.Context(), Request{URL: fmt.Sprint(srv.URL, "/", n), Addr: netip.MustParseAddrPort(srv.Listener.Addr().String())})
		testkit.Must(t, err)
		resp.Close()
		if !run.Live() {
			t.Fatal("the run is over")
		}
	}
	run.Close()
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// An address has one hand, and a hand that comes or goes takes no other's addresses.
func TestAddressesOfHands(t *testing.T) {
	t.Parallel()
	const addresses, hands = 30_000, 3
	at := func(n int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, byte(n >> 8), byte(n)}), 80)
	}
	h := &Head{hands: make(map[string]*hand)}
	for n := range hands {
		h.hands[fmt.Sprint(n)] = &hand{name: fmt.Sprint(n)}
	}
	before, count := make([]*hand, addresses), make(map[*hand]int)
	for n := range before {
		before[n] = h.choose(at(n))
		count[before[n]]++
	}
	for w, n := range count {
		if n < addresses/hands*95/100 || n > addresses/hands*105/100 {
			t.Errorf("hand %s has %d addresses of %d", w.name, n, addresses)
		}
	}
	gone := h.hands["1"]
	delete(h.hands, "1")
	for n := range before {
		if now := h.choose(at(n)); before[n] != gone && now != before[n] {
			t.Fatalf("%v went from hand %s to %s", at(n), before[n].name, now.name)
		}
	}
}

// A hand of a stranger, one that was removed or invited again, and one of another version are
// refused with a reason.
func TestHandsThatAreRefused(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s, other := newSite(t, LeaseTime/20), newSite(t, LeaseTime)
	try := func(opt HandOptions) error {
		opt.Head, opt.Turns, opt.Log = s.addr, 1, slog.New(slog.DiscardHandler)
		opt.Fetcher = func(*Terms) (*Fetcher, error) { return handFetcher(t, true), nil }
		config, err := passTLS(opt.Pass)
		if err != nil {
			return err
		}
		return session(t.Context(), config, &opt)
	}
	again, removed := s.invite("again"), s.invite("removed")
	fresh := s.invite("again")
	testkit.Must(t, RemoveHand(s.dir, "removed"))
	for what, c := range map[string]struct {
		opt  HandOptions
		want string
	}{
		"another head's": {HandOptions{Pass: other.invite("one"), Version: version}, "certificate"},
		"invited again":  {HandOptions{Pass: again, Version: version}, "it was removed, or invited again"},
		"removed":        {HandOptions{Pass: removed, Version: version}, "it was removed, or invited again"},
		"of version 1":   {HandOptions{Pass: fresh, Version: "1.0.0"}, "the head's program is version 1.2.3, and this hand's \"1.0.0\": install 1.2.3 here"},
		"no pass":        {HandOptions{Pass: []byte("pass"), Version: version}, "not what robotd hand invite writes"},
	} {
		if err := try(c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := len(s.hands()); n != 0 {
		t.Errorf("%d hands", n)
	}
	pass := s.invite("late")
	_, ended := s.serve("late", HandOptions{Pass: pass})
	testkit.Must(t, RemoveHand(s.dir, "late")) // while it is connected
	if err := testkit.Receive(t, "the end", ended); err == nil || !strings.Contains(err.Error(), "right") {
		t.Errorf("removed while connected: %v", err)
	}
	for _, name := range []string{"../x", "authority.key", ""} {
		if _, err := InviteHand(s.dir, name); err == nil {
			t.Errorf("%q was invited", name)
		}
		if err := RemoveHand(s.dir, name); err == nil {
			t.Errorf("%q was removed", name)
		}
	}
}

// A hand fetches only from addresses that its own machine allows, whatever the head says.
func TestHandGuardsItsNetwork(t *testing.T) {
	t.Parallel()
	s := newSite(t, LeaseTime)
	url, addr := web(t, func(http.ResponseWriter, *http.Request) { t.Error("the page was fetched") })
	s.serve("one", HandOptions{Fetcher: func(*Terms) (*Fetcher, error) { return handFetcher(t, false), nil }})
	if _, err := s.Get(t.Context(), Request{URL: url, Addr: addr}); KindOf(err) != Refused {
		t.Errorf("%v", err)
	}
}

// After a kill, a head waits until hands that may have had turns have surely stopped. After an
// orderly end it does not.
func TestHeadAfterAKill(t *testing.T) {
	t.Parallel()
	s := newSite(t, LeaseTime)
	log := slog.New(slog.DiscardHandler)
	s.serve("one", HandOptions{})
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		testkit.Must(t, AwaitHands(s.dir, log))
		if waited := time.Since(began); waited <= LeaseTime {
			t.Errorf("it waited for %v", waited)
		}
	})
	testkit.Must(t, config.Replace(filepath.Join(s.dir, outFile), nil, 0o644)) // by a loss of power
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		testkit.Must(t, AwaitHands(s.dir, log))
		if waited := time.Since(began); waited <= LeaseTime {
			t.Errorf("of a lease that is not known it waited for %v", waited)
		}
	})
	testkit.Must(t, config.Replace(filepath.Join(s.dir, outFile), []byte("10s"), 0o644))
	testkit.Must(t, s.Head.Close())
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		testkit.Must(t, AwaitHands(s.dir, log))
		if waited := time.Since(began); waited > 0 {
			t.Errorf("after an orderly end it waited for %v", waited)
		}
	})
}

// puppet is a hand whose messages the test writes.
type puppet struct {
	t *testing.T
	*line
}

func (s *site) puppet(name string) *puppet {
	s.t.Helper()
	config, err := passTLS(s.invite(name))
	testkit.Must(s.t, err)
	conn, err := dial(s.t.Context(), config, &HandOptions{Head: s.addr, Version: version, Turns: 10})
	testkit.Must(s.t, err)
	s.t.Cleanup(func() { conn.Close() })
	p := &puppet{s.t, newLine(conn, conn)}
	if m := p.receive(); m.Terms == nil {
		s.t.Fatalf("%+v", m)
	}
	testkit.Until(s.t, name, func() bool { return s.has(name) })
	return p
}

func (p *puppet) send(m *message) {
	p.t.Helper()
	testkit.Must(p.t, p.write(m, false))
}

func (p *puppet) receive() *message {
	p.t.Helper()
	m, err := p.read()
	testkit.Must(p.t, err)
	return m
}

// good returns a right answer with a body, and the body deflated.
func good(t *testing.T) (*handAnswer, []byte) {
	t.Helper()
	_, addr := web(t, somePage)
	resp, err := handFetcher(t, true).Get(t.Context(), Request{URL: "http://" + addr.String() + "/", Addr: addr})
	testkit.Must(t, err)
	defer resp.Close()
	d, err := archive.NewDeflater(6)
	testkit.Must(t, err)
	var blocks bytes.Buffer
	testkit.Must(t, d.Deflate(&blocks, resp.HTTP, resp.Body()))
	a := answerOf(resp)
	a.Response.IP, a.Response.Took, a.Response.Wait = netip.Addr{}, 0, 0
	return a, blocks.Bytes()
}

func (p *puppet) answer(id uint64, a *handAnswer, body []byte) {
	p.t.Helper()
	text, err := json.Marshal(a)
	testkit.Must(p.t, err)
	_ = p.write(&message{Part: &part{ID: id, Answer: 10}, data: text[:10]}, true) // the head may have hung up
	_ = p.write(&message{Part: &part{ID: id, Answer: len(text) - 10, Last: true}, data: append(text[10:], body...)}, false)
}

// Results that belong to no turn, or come twice, are refused and counted; what is sent for a turn
// that is out still counts.
func TestForgedAndRepeatedResults(t *testing.T) {
	t.Parallel()
	s := newSite(t, LeaseTime)
	p := s.puppet("puppet")
	a, body := good(t)
	p.answer(77, a, body) // never given
	got := make(chan error, 1)
	go func() {
		resp, err := s.Get(t.Context(), Request{URL: "http://h.test/", Addr: netip.MustParseAddrPort("192.0.2.1:80")})
		if err == nil {
			err = resp.Close()
		}
		got <- err
	}()
	id := p.receive().Turn.ID
	p.answer(id+1, a, body)
	p.answer(id, a, body)
	testkit.Must(t, testkit.Receive(t, "the page", got))
	p.answer(id, a, body) // again
	testkit.Until(t, "three refusals", func() bool { return s.refused.Load() == 3 })
	all, warnings := s.Hands()
	if len(warnings) != 1 || all[0].Pages != 1 {
		t.Errorf("%q, %+v", warnings, all)
	}
}

// A hand whose result is not right is sent away, and its turn is not made.
func TestResultsThatAreNotRight(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	long := bytes.Repeat([]byte("x"), 1<<20)
	for what, forge := range map[string]func(*handAnswer, []byte) []byte{
		"another body": func(_ *handAnswer, b []byte) []byte { return b[:len(b)/2] },
		"another digest": func(a *handAnswer, b []byte) []byte {
			a.Response.Digest = "sha256:" + strings.Repeat("A", 52) + "===="
			return b
		},
		"less than no body":    func(a *handAnswer, b []byte) []byte { a.Response.Size = -1; return b },
		"a longer body":        func(a *handAnswer, b []byte) []byte { a.Response.Size += 1; return b },
		"a page over all size": func(a *handAnswer, b []byte) []byte { a.Response.Size = 1 << 40; return b },
		"too many bytes":       func(_ *handAnswer, b []byte) []byte { return slices.Concat(long, long) },
		"no status":            func(a *handAnswer, b []byte) []byte { a.Response.Status = 0; return b },
		"no header":            func(a *handAnswer, b []byte) []byte { a.Response.HTTP = nil; return b },
		"a huge header":        func(a *handAnswer, b []byte) []byte { a.Response.HTTP = slices.Concat(long, crlf2); return b },
		"another server":       func(a *handAnswer, b []byte) []byte { a.Response.IP = netip.MustParseAddr("192.0.2.9"); return b },
		"an endless fetch":     func(a *handAnswer, b []byte) []byte { a.Response.Took = time.Hour; return b },
		"another reason":       func(a *handAnswer, b []byte) []byte { a.Response.Truncated = "x"; return b },
		"another error":        func(a *handAnswer, b []byte) []byte { a.Kind = "x"; return b },
		"another cut": func(a *handAnswer, b []byte) []byte {
			a.Response.Found = &page.Page{Cut: map[string]int{"x": 1}}
			return b
		},
		"endless text": func(a *handAnswer, b []byte) []byte { a.Response.Found = &page.Page{Text: string(long)}; return b },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			a, body := good(t)
			s := newSite(t, time.Second/2)
			p := s.puppet("puppet")
			got := make(chan error, 1)
			go func() {
				_, err := s.Get(t.Context(), Request{URL: "http://h.test/", Addr: netip.MustParseAddrPort("192.0.2.1:80")})
				got <- err
			}()
			id := p.receive().Turn.ID
			body = forge(a, body)
			p.answer(id, a, body)
			if err := testkit.Receive(t, "the turn's end", got); KindOf(err) != Over {
				t.Errorf("%v", err)
			}
			testkit.Until(t, "no hand", func() bool { return len(s.hands()) == 0 })
		})
	}
}

// The turn of a hand that is lost comes back when the hand can make no request any more, and not
// before. A page with which hand after hand is lost has failed.
func TestLostHand(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const lease = 700 * time.Millisecond
	s := newSite(t, lease)
	req := Request{URL: "http://h.test/", Addr: netip.MustParseAddrPort("192.0.2.1:80")}
	for n := range mostLost {
		p := s.puppet("puppet")
		got := make(chan error, 1)
		go func() {
			_, err := s.Get(t.Context(), req)
			got <- err
		}()
		p.receive()
		p.send(&message{Ping: &ping{Sent: 1}})
		pinged := time.Now()
		for m := p.receive(); m.Pong != 1; m = p.receive() {
		}
		p.send(&message{Terms: &Terms{}}) // no hand sends this
		err := testkit.Receive(t, "the turn's end", got)
		if after := time.Since(pinged); after < lease {
			t.Errorf("the turn came back after %v", after)
		}
		if want := map[bool]Kind{false: Over, true: Protocol}[n == mostLost-1]; KindOf(err) != want {
			t.Errorf("hand %d: %v, want %s", n, err, want)
		}
	}
}

// cutLine listens in front of addr and passes bytes both ways until cut is called. Then neither end
// is told of the other's end; what comes from the listener's side is swallowed or, if stalled, not
// even taken.
func cutLine(t *testing.T, addr string, stalled bool) (at string, cut func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(func() { l.Close() })
	dead, over := make(chan struct{}), t.Context().Done()
	pass := func(to, from net.Conn, stalls bool) {
		b := make([]byte, 32<<10)
		for {
			n, err := from.Read(b)
			select {
			case <-dead:
				if stalls || err != nil {
					<-over
					to.Close()
					return
				}
				continue
			default:
			}
			if err != nil {
				to.Close()
				return
			}
			_, _ = to.Write(b[:n])
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
			up, err := net.Dial("tcp", addr)
			if err != nil {
				return
			}
			go pass(up, c, stalled)
			go pass(c, up, false)
		}
	}()
	return l.Addr().String(), func() { close(dead) }
}

// A hand that does not hear its head any more breaks off what it does within the lease, and makes
// no further request. The same is true of one whose connection takes no more bytes.
func TestHandWithoutItsHead(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for what, stalled := range map[string]bool{"silent": false, "stalled": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			testHandWithoutItsHead(t, stalled)
		})
	}
}

func testHandWithoutItsHead(t *testing.T, stalled bool) {
	const lease = 2 * time.Second
	s := newSite(t, lease)
	asked, broken, isCut := make(chan struct{}, 99), make(chan time.Time, 9), make(chan struct{})
	url, addr := web(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		if r.URL.Path == "/large" {
			<-isCut
			_, _ = io.CopyN(w, rand.Reader, 1<<20)
			return
		}
		<-r.Context().Done()
		broken <- time.Now()
	})
	head, cut := cutLine(t, s.addr, stalled)
	s.serve("one", HandOptions{Head: head})
	type result struct {
		err error
		at  time.Time
	}
	get := func(path string) chan result {
		got := make(chan result, 1)
		go func() {
			_, err := s.Get(t.Context(), Request{URL: url + path, Addr: addr})
			got <- result{err, time.Now()}
		}()
		return got
	}
	got := get("/")
	testkit.Receive(t, "the request", asked)
	if stalled {
		for range 9 { // more than the connection and the queue before it hold
			get("/large")
			testkit.Receive(t, "the request", asked)
		}
	}
	cut()
	close(isCut)
	began := time.Now()
	at := testkit.Receive(t, "the end of the request", broken)
	turn := testkit.Receive(t, "the turn's end", got)
	if KindOf(turn.err) != Over || turn.at.Before(at) {
		t.Errorf("%v; broken off after %v, taken as not made after %v", turn.err, at.Sub(began), turn.at.Sub(began))
	}
	if len(asked) > 0 {
		t.Error("another request was made")
	}
}

// A hand that is told to stop finishes its turns; the next turns are others'. A turn that the head
// breaks off is broken off at the hand.
func TestEndsOfTurns(t *testing.T) {
	t.Parallel()
	s := newSite(t, LeaseTime)
	asked, goOn, broken := make(chan struct{}, 9), make(chan struct{}), make(chan struct{}, 9)
	url, addr := web(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-goOn:
		case <-r.Context().Done():
			broken <- struct{}{}
		}
	})
	stop, ended := s.serve("one", HandOptions{})
	ctx, cancel := context.WithCancelCause(t.Context())
	type result struct {
		resp *Response
		err  error
	}
	get := func(ctx context.Context) chan result {
		got := make(chan result, 1)
		go func() {
			resp, err := s.Get(ctx, Request{URL: url, Addr: addr})
			got <- result{resp, err}
		}()
		testkit.Receive(t, "the request", asked)
		return got
	}
	first, second := get(ctx), get(t.Context())
	cancel(errors.New("no progress"))
	testkit.Receive(t, "the end of the request", broken)
	if r := testkit.Receive(t, "the turn's end", first); KindOf(r.err) != Canceled {
		t.Errorf("%v", r.err)
	}
	stop()
	testkit.Until(t, "no hand for further turns", func() bool { return s.choose(addr) == nil })
	close(goOn)
	r := testkit.Receive(t, "the second page", second)
	testkit.Must(t, r.err)
	r.resp.Close()
	testkit.Must(t, testkit.Receive(t, "the hand's end", ended))
}

// Whatever bytes come, a line gives an error or a message that it can carry.
func FuzzLine(f *testing.F) {
	var b bytes.Buffer
	testkit.Must(f, newLine(nil, &b).write(&message{Part: &part{ID: 7, Last: true}, data: []byte("data")}, false))
	f.Add(b.Bytes())
	f.Add([]byte{0, 0, 0, 2, 0, 0, 0, 9, '{', '}'})
	f.Add(slices.Repeat([]byte{255}, 8))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := newLine(bytes.NewReader(b), nil).read()
		if err != nil {
			return
		}
		testkit.Must(t, newLine(nil, io.Discard).write(m, false))
	})
}
