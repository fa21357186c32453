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

// channel is the data connection that the client has chosen for its next transfer.
type channel struct {
	connect func(context.Context) (net.Conn, error) // opens it; returns early if the context ends; is called once
	close   func() error                            // gives it up
}

// passive returns a channel over which the client connects to l. It closes connections from other
// addresses than the client's. The client may come through proxies.
func passive(l *net.TCPListener, client netip.Addr, proxies peer.Proxies, timeout time.Duration) *channel {
	connect := func(ctx context.Context) (net.Conn, error) {
		defer context.AfterFunc(ctx, func() { l.Close() })()
		l.SetDeadline(time.Now().Add(timeout))
		for {
			c, err := l.Accept()
			if err != nil {
				return nil, err
			}
			if c = proxies.Accepted(c); c == nil {
				continue
			}
			if peer.AddrOf(c.RemoteAddr()) == client {
				return c, nil
			}
			c.Close()
		}
	}
	return &channel{connect, l.Close}
}

// active returns a channel over which the server connects to the client. from is the server's
// address on the control connection.
func active(from netip.Addr, to netip.AddrPort, timeout time.Duration) *channel {
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Timeout: timeout}
	connect := func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "tcp", to.String()) }
	return &channel{connect, func() error { return nil }}
}

// portRange has the ports on which passive channels listen.
type portRange struct {
	first, last int
	system      bool // if none of some random ports is free, the system chooses one
}

// newPortRange returns the ports from first to last, or any ports if last is 0.
//
// Even for any ports, some random ones are tried first. If the system chooses a port, it looks
// through all ports in TIME_WAIT, which after thousands of transfers takes longer than a transfer.
func newPortRange(first, last int) portRange {
	if last != 0 {
		return portRange{first, last, false}
	}
	first, last = ephemeralPorts()
	return portRange{first, last, true}
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

// listen listens on a free port of the address ip. It begins the search at a random port.
func (p portRange) listen(ip netip.Addr) (l *net.TCPListener, err error) {
	listen := func(port int) bool {
		l, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, uint16(port))))
		return err == nil
	}
	n := p.last - p.first + 1
	begin, tries := rand.IntN(n), n
	if p.system {
		tries = min(10, n)
	}
	for i := range tries {
		if listen(p.first + (begin+i)%n) {
			return l, nil
		}
	}
	if p.system && listen(0) {
		return l, nil
	}
	return nil, fmt.Errorf("no passive port free in %d-%d: %w", p.first, p.last, err)
}
