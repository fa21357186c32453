package peer

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// fake is a connection from an address.
type fake struct {
	net.Conn
	from   net.Addr
	closed bool
}

func (f *fake) RemoteAddr() net.Addr { return f.from }
func (f *fake) Close() error         { f.closed = true; return nil }

func from(ip string) *fake { return &fake{from: &net.TCPAddr{IP: net.ParseIP(ip), Port: 1234}} }

func TestPerAddress(t *testing.T) {
	g := NewGuard(Limits{Total: 100, PerAddress: 2})
	open := func(ip string) *fake {
		c := from(ip)
		g.ConnState(c, http.StateNew)
		return c
	}
	a, b := open("192.0.2.1"), open("192.0.2.1")
	other := open("192.0.2.2")
	g.ConnState(a, http.StateActive)
	c := open("192.0.2.1")
	if a.closed || !b.closed || c.closed || other.closed {
		t.Errorf("want only the address's idle connection closed, got: %v %v %v %v", a.closed, b.closed, c.closed, other.closed)
	}
	g.ConnState(b, http.StateClosed) // as the server calls it for the closed connection
	g.ConnState(c, http.StateActive)
	if d := open("192.0.2.1"); !d.closed || a.closed || c.closed {
		t.Error("both connections are active, but the new one was not refused")
	}
	g.ConnState(a, http.StateIdle)
	g.ConnState(a, http.StateClosed)
	if d := open("192.0.2.1"); d.closed {
		t.Error("a connection was refused although another had closed")
	}
	for range 5 {
		if d := open("127.0.0.1"); d.closed {
			t.Error("a connection from loopback was refused")
		}
	}
	first := open("2001:db8::1")
	open("2001:db8::2")
	open("2001:db8::3")
	if !first.closed {
		t.Error("a second address of a /64 was not counted with the first")
	}
}

func TestNothingIsKept(t *testing.T) {
	g := NewGuard(Limits{Total: 10, PerAddress: 3})
	for i := range 1000 {
		c := from([]string{"192.0.2.1", "192.0.2.2", "198.51.100.7", "127.0.0.1"}[i%4])
		g.ConnState(c, http.StateNew)
		if i%3 == 0 {
			g.ConnState(c, http.StateActive)
		}
		g.ConnState(c, http.StateClosed)
	}
	if len(g.conns) != 0 || len(g.origin) != 0 || g.idle.Len() != 0 {
		t.Errorf("after closing all: %d connections, %d addresses, %d idle", len(g.conns), len(g.origin), g.idle.Len())
	}
}

// TestIdleCrowd: many idle connections lock nobody out of a real server.
func TestIdleCrowd(t *testing.T) {
	const total = 50
	g := NewGuard(Limits{Total: total})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }))
	server.Config.ConnState = g.ConnState
	server.Start()
	defer server.Close()
	var crowd []net.Conn
	defer func() {
		for _, c := range crowd {
			c.Close()
		}
	}()
	for range 5 * total {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		crowd = append(crowd, c)
	}
	resp, err := (&http.Client{Timeout: time.Minute}).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := bufio.NewReader(resp.Body).ReadString(0); body != "ok" {
		t.Errorf("got %q", body)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.conns) > total {
		t.Errorf("%d connections are open", len(g.conns))
	}
}

// A server that stops waits for the request that runs, and no longer than it may.
func TestShutdown(t *testing.T) {
	begun, end := make(chan struct{}, 1), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { begun <- struct{}{}; <-end }))
	answered := make(chan error, 1)
	go func() {
		resp, err := http.Get(s.URL)
		if err == nil {
			err = resp.Body.Close()
		}
		answered <- err
	}()
	testkit.Receive(t, "the request", begun)
	none, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Shutdown(none, s.Config); !errors.Is(err, context.Canceled) {
		t.Errorf("with a request under way: %v", err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- Shutdown(t.Context(), s.Config) }()
	close(end)
	testkit.Must(t, testkit.Receive(t, "the answer", answered))
	testkit.Must(t, testkit.Receive(t, "the end", stopped))
}
