package peer

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/pires/go-proxyproto"
)

// headerTimeout is how long a proxy may take to send the PROXY header. Proxies send it at once.
const headerTimeout = 5 * time.Second

// Listener returns a listener over l for a protocol without headers of its own, such as FTP. Each
// connection from a proxy must begin with a PROXY header (version 1 or 2) with the client's
// address, which RemoteAddr then returns. A connection from a proxy without the header is closed.
// Connections from elsewhere are returned unread. A slow header does not delay other connections.
func (p Proxies) Listener(l net.Listener) net.Listener {
	if len(p) == 0 {
		return l
	}
	h := &headerListener{Listener: l, proxies: p, accepted: make(chan accepted)}
	h.closed, h.stop = context.WithCancel(context.Background())
	go h.run()
	return h
}

// Accepted returns the connection c with its client's address. If c comes from a proxy and does not
// begin with a PROXY header, Accepted closes c and returns nil.
func (p Proxies) Accepted(c net.Conn) net.Conn {
	if !p.Trust(AddrOf(c.RemoteAddr())) {
		return c
	}
	proxied := proxyproto.NewConn(c, proxyproto.WithPolicy(proxyproto.REQUIRE), proxyproto.SetReadHeaderTimeout(headerTimeout))
	if proxied.ProxyHeader() == nil {
		c.Close()
		return nil
	}
	return proxied
}

// headerListener reads the PROXY headers of several connections at once.
type headerListener struct {
	net.Listener
	proxies  Proxies
	accepted chan accepted
	closed   context.Context
	stop     context.CancelFunc
}

type accepted struct {
	conn net.Conn
	err  error
}

func (h *headerListener) run() {
	for {
		c, err := h.Listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			h.stop()
			return
		case err == nil && h.proxies.Trust(AddrOf(c.RemoteAddr())):
			go func() {
				if c := h.proxies.Accepted(c); c != nil {
					h.deliver(accepted{c, nil})
				}
			}()
		default:
			h.deliver(accepted{c, err})
		}
	}
}

func (h *headerListener) deliver(a accepted) {
	select {
	case h.accepted <- a:
	case <-h.closed.Done():
		if a.conn != nil {
			a.conn.Close()
		}
	}
}

func (h *headerListener) Accept() (net.Conn, error) {
	select {
	case a := <-h.accepted:
		return a.conn, a.err
	case <-h.closed.Done():
		return nil, net.ErrClosed
	}
}

func (h *headerListener) Close() error {
	h.stop()
	return h.Listener.Close()
}

// TCP returns the TCP connection below c, or nil if there is none.
func TCP(c net.Conn) *net.TCPConn {
	switch c := c.(type) {
	case *net.TCPConn:
		return c
	case *proxyproto.Conn:
		t, _ := c.TCPConn() // nil if it fails
		return t
	}
	return nil
}

// Local returns this machine's own address on c, also behind a proxy. (The PROXY header names the
// proxy's address, which the client has reached.)
func Local(c net.Conn) netip.Addr {
	if t := TCP(c); t != nil {
		return AddrOf(t.LocalAddr())
	}
	return AddrOf(c.LocalAddr())
}

// AddrOf returns the IP address of a TCP address, IPv4 in its short form. For other addresses it
// returns the zero Addr.
func AddrOf(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
