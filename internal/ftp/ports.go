package ftp

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/peer"
)

// ports has the commands with which a client chooses its next data connection.
type ports struct {
	d       *dialogue
	cfg     *Config
	passive portRange
	client  netip.Addr

	channel  *channel // for the next transfer; nil: none is chosen
	private  bool     // data connections are encrypted, after PROT P
	implicit bool     // TLS began at once, so nothing may be sent in clear text
	onlyEPSV bool     // after EPSV ALL
}

// prot answers PROT, which says whether data connections are encrypted.
func (p *ports) prot(arg string) error {
	switch level := strings.ToUpper(strings.TrimSpace(arg)); {
	case !p.d.control.Encrypted():
		return refuse(503, "AUTH TLS comes first")
	case level == "P":
		p.private = true
		return p.d.reply(200, "Data channels are encrypted")
	case level == "C" && (p.cfg.RequireTLS || p.implicit):
		return refuse(534, "Data channels must be encrypted here")
	case level == "C":
		p.private = false
		return p.d.reply(200, "Data channels are in clear text")
	case level == "S", level == "E":
		return refuse(536, "Only PROT P and PROT C are known")
	}
	return refuse(504, "Only PROT P and PROT C are known")
}

// count counts a data connection if it is encrypted or has resumed a TLS session.
func (p *ports) count(c *dataConn) {
	if !c.Plain {
		p.cfg.Counts.Secured.Add(1)
	}
	if c.Resumed() {
		p.cfg.Counts.Resumed.Add(1)
	}
}

// pasv answers PASV, which only IPv4 has.
func (p *ports) pasv(string) error {
	if p.onlyEPSV {
		return refuse(503, "After EPSV ALL there is only EPSV")
	}
	ip := p.cfg.PublicIP.Unmap()
	if !ip.IsValid() {
		ip = peer.Local(p.d.control.Conn)
	}
	if !ip.Is4() {
		return refuse(425, "PASV is for IPv4; use EPSV")
	}
	if ip.IsLoopback() && !p.client.IsLoopback() { // the client came through a proxy
		p.d.log.WarnContext(p.d.ctx, "ftp: the address for PASV is not known behind this proxy: set public")
		return refuse(425, "This server does not know its address for PASV; use EPSV")
	}
	port, err := p.listen()
	if err != nil {
		return err
	}
	a := ip.As4()
	return p.d.reply(227, "Entering Passive Mode (%d,%d,%d,%d,%d,%d)", a[0], a[1], a[2], a[3], port>>8, port&255)
}

// epsv answers EPSV (RFC 2428), for the protocol that the client uses, IPv4 or IPv6.
func (p *ports) epsv(arg string) error {
	family := "2"
	if p.client.Is4() {
		family = "1"
	}
	switch strings.ToUpper(strings.TrimSpace(arg)) {
	case "ALL":
		p.onlyEPSV = true
		return p.d.reply(200, "Only EPSV from now on")
	case "", family:
		port, err := p.listen()
		if err != nil {
			return err
		}
		return p.d.reply(229, "Entering Extended Passive Mode (|||%d|)", port)
	}
	return refuse(522, "Network protocol not supported, use (%s)", family)
}

// listen opens a port for a passive data connection, on the address that the client has reached.
func (p *ports) listen() (port int, err error) {
	p.drop()
	l, err := p.passive.listen(peer.Local(p.d.control.Conn))
	if err != nil {
		p.d.log.WarnContext(p.d.ctx, "ftp: cannot open a passive data channel", "err", err)
		return 0, refuse(425, "No port is free for a data connection; try again")
	}
	p.channel = passive(l, p.client, p.cfg.Proxies, p.cfg.DataTimeout)
	return l.Addr().(*net.TCPAddr).Port, nil
}

// port answers PORT: h1,h2,h3,h4,p1,p2, the address and the port in bytes.
func (p *ports) port(arg string) error {
	var b [6]byte
	parts := strings.Split(strings.TrimSpace(arg), ",")
	ok := len(parts) == len(b)
	for i := 0; ok && i < len(b); i++ {
		n, err := strconv.ParseUint(parts[i], 10, 8)
		b[i], ok = byte(n), err == nil
	}
	if !ok {
		return refuse(501, "PORT takes h1,h2,h3,h4,p1,p2")
	}
	return p.connectTo(netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[:4])), uint16(b[4])<<8|uint16(b[5])))
}

// eprt answers EPRT (RFC 2428): |family|address|port|, with any delimiter.
func (p *ports) eprt(arg string) error {
	parts := strings.Split(arg, arg[:1])
	if len(parts) != 5 {
		return refuse(501, "EPRT takes |family|address|port|")
	}
	if parts[1] != "1" && parts[1] != "2" {
		return refuse(522, "Network protocol not supported, use (1,2)")
	}
	ip, err := netip.ParseAddr(parts[2])
	port, err2 := strconv.ParseUint(parts[3], 10, 16)
	if err != nil || err2 != nil || ip.Is4() != (parts[1] == "1") {
		return refuse(501, "EPRT takes |family|address|port|")
	}
	return p.connectTo(netip.AddrPortFrom(ip.Unmap(), uint16(port)))
}

// connectTo chooses an active data connection. It accepts only the client's own address, and no
// port of a system service, so that nobody can use the server to reach others.
func (p *ports) connectTo(to netip.AddrPort) error {
	switch {
	case p.onlyEPSV:
		return refuse(503, "After EPSV ALL there is only EPSV")
	case to.Addr() != p.client || to.Port() < 1024:
		return refuse(504, "Data connections go to your own address only, and to ports from 1024 on")
	}
	p.drop()
	p.channel = active(peer.Local(p.d.control.Conn), to, p.cfg.DataTimeout)
	return p.d.reply(200, "Data connections go to %v", to)
}

// drop gives up the data connection that was chosen.
func (p *ports) drop() {
	if p.channel != nil {
		p.channel.close()
		p.channel = nil
	}
}

// ready returns an error unless a data connection is chosen, and encrypted if it must be.
func (p *ports) ready() error {
	switch {
	case p.cfg.RequireTLS && !p.private:
		return refuse(521, "Data connections must be encrypted here: send PBSZ 0 and PROT P first")
	case p.channel == nil:
		return refuse(425, "Use PASV or EPSV first")
	}
	return nil
}

// take returns the chosen data connection, for one use. tlsConfig is nil if the connection is not
// encrypted.
func (p *ports) take() (channel *channel, tlsConfig *tls.Config) {
	channel, p.channel = p.channel, nil
	if p.private {
		tlsConfig = p.cfg.TLS
	}
	return channel, tlsConfig
}

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
