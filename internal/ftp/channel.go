package ftp

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"time"

	"sheaf/internal/peer"
)

// Channel opens the data connection that the client has chosen for its next transfer.
type Channel interface {
	// Connect opens the connection; call it only once. It returns early if ctx ends.
	Connect(ctx context.Context) (net.Conn, error)
	Close() error
}

// Passive is a Channel over which the client connects to the server. It closes connections from
// other addresses than Client.
type Passive struct {
	*net.TCPListener
	Client  netip.Addr
	Proxies peer.Proxies // through which the client may come
	Timeout time.Duration
}

// Port returns the port to which the client connects.
func (p *Passive) Port() int { return p.Addr().(*net.TCPAddr).Port }

// Connect implements Channel.
func (p *Passive) Connect(ctx context.Context) (net.Conn, error) {
	defer context.AfterFunc(ctx, func() { p.Close() })()
	p.SetDeadline(time.Now().Add(p.Timeout))
	for {
		c, err := p.Accept()
		if err != nil {
			return nil, err
		}
		if c = p.Proxies.Accepted(c); c == nil {
			continue
		}
		if peer.AddrOf(c.RemoteAddr()) == p.Client {
			return c, nil
		}
		c.Close()
	}
}

// Active is a Channel over which the server connects to the client.
type Active struct {
	From    netip.Addr // the server's address on the control connection
	To      netip.AddrPort
	Timeout time.Duration
}

// Connect implements Channel.
func (a *Active) Connect(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(a.From, 0)), Timeout: a.Timeout}
	return d.DialContext(ctx, "tcp", a.To.String())
}

// Close implements Channel.
func (a *Active) Close() error { return nil }

// Ports are the ports on which passive channels listen.
type Ports struct {
	first, last int
	tries       int  // how many ports are tried
	system      bool // if none of the ports is free, the system chooses one
}

// NewPorts returns the ports from first to last, or any ports if last is 0.
//
// Even for any ports, some random ones are tried first. If the system chooses a port, it looks
// through all ports in TIME_WAIT, which after thousands of transfers takes longer than a transfer.
func NewPorts(first, last int) Ports {
	if last != 0 {
		return Ports{first, last, last - first + 1, false}
	}
	first, last = ephemeralPorts()
	return Ports{first, last, min(10, last-first+1), true}
}

// ephemeralPorts returns the first and the last port that the system itself chooses from: Linux's
// setting, or IANA's range (RFC 6335).
func ephemeralPorts() (first, last int) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if _, serr := fmt.Sscan(string(text), &first, &last); err != nil || serr != nil || first < 1024 || last > 65535 || first >= last {
		return 49152, 65535
	}
	return first, last
}

// Listen listens on a free port of the address ip. It begins the search at a random port.
func (p Ports) Listen(ip netip.Addr) (l *net.TCPListener, err error) {
	listen := func(port int) bool {
		l, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, uint16(port))))
		return err == nil
	}
	n := p.last - p.first + 1
	begin := rand.IntN(n)
	for i := range p.tries {
		if listen(p.first + (begin+i)%n) {
			return l, nil
		}
	}
	if p.system && listen(0) {
		return l, nil
	}
	return nil, fmt.Errorf("no passive port free in %d-%d: %w", p.first, p.last, err)
}
