package ftp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/pires/go-proxyproto"

	"sheaf/internal/peer"
)

// proxyPatience is how long a proxy may take to send the PROXY header. It sends it at once.
const proxyPatience = 5 * time.Second

// behind is a listener whose connections from trusted proxies begin with a PROXY header (version 1
// or 2), which says who the client is. One without is closed. Connections from elsewhere are what
// they are; a header that they send is theirs, and no FTP command.
type behind struct {
	net.Listener
	trusted  peer.Proxies
	accepted chan accepted
	done     context.Context
	stop     context.CancelFunc
}

type accepted struct {
	conn net.Conn
	err  error
}

// behindProxies reads the headers of l's connections, while others are accepted.
func behindProxies(l net.Listener, trusted peer.Proxies) net.Listener {
	if len(trusted) == 0 {
		return l
	}
	b := &behind{Listener: l, trusted: trusted, accepted: make(chan accepted)}
	b.done, b.stop = context.WithCancel(context.Background())
	go b.run()
	return b
}

func (b *behind) run() {
	for {
		c, err := b.Listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			b.stop()
			return
		case err == nil && b.trusted.Trust(addrOf(c.RemoteAddr())):
			go func() {
				if p := unwrap(c); p != nil {
					b.hand(p, nil)
				}
			}()
		default:
			b.hand(c, err)
		}
	}
}

func (b *behind) hand(c net.Conn, err error) {
	select {
	case b.accepted <- accepted{c, err}:
	case <-b.done.Done():
		if c != nil {
			c.Close()
		}
	}
}

func (b *behind) Accept() (net.Conn, error) {
	select {
	case a := <-b.accepted:
		return a.conn, a.err
	case <-b.done.Done():
		return nil, net.ErrClosed
	}
}

func (b *behind) Close() error {
	b.stop()
	return b.Listener.Close()
}

// unwrap reads the PROXY header of a connection; where there is none it closes it and returns nil.
func unwrap(c net.Conn) net.Conn {
	p := proxyproto.NewConn(c, proxyproto.WithPolicy(proxyproto.REQUIRE), proxyproto.SetReadHeaderTimeout(proxyPatience))
	if p.ProxyHeader() == nil {
		c.Close()
		return nil
	}
	return p
}

// tcpOf is the TCP connection below c, nil where there is none.
func tcpOf(c net.Conn) *net.TCPConn {
	switch c := c.(type) {
	case *net.TCPConn:
		return c
	case *proxyproto.Conn:
		t, _ := c.TCPConn() // nil where it fails
		return t
	}
	return nil
}

// local is our own address on c. A PROXY header tells the proxy's instead.
func local(c net.Conn) netip.Addr {
	if t := tcpOf(c); t != nil {
		return addrOf(t.LocalAddr())
	}
	return addrOf(c.LocalAddr())
}
