package ftp

import (
	"crypto/tls"
	"net"
	"net/netip"
	"strconv"
	"strings"

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
func (p *ports) prot(arg string) {
	switch level := strings.ToUpper(strings.TrimSpace(arg)); {
	case !p.d.control.Encrypted():
		p.d.reply(503, "AUTH TLS comes first")
	case level == "P":
		p.private = true
		p.d.reply(200, "Data channels are encrypted")
	case level == "C" && (p.cfg.RequireTLS || p.implicit):
		p.d.reply(534, "Data channels must be encrypted here")
	case level == "C":
		p.private = false
		p.d.reply(200, "Data channels are in clear text")
	case level == "S", level == "E":
		p.d.reply(536, "Only PROT P and PROT C are known")
	default:
		p.d.reply(504, "Only PROT P and PROT C are known")
	}
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
func (p *ports) pasv(string) {
	if p.onlyEPSV {
		p.d.reply(503, "After EPSV ALL there is only EPSV")
		return
	}
	ip := p.cfg.PublicIP.Unmap()
	if !ip.IsValid() {
		ip = peer.Local(p.d.control.Conn)
	}
	if !ip.Is4() {
		p.d.reply(425, "PASV is for IPv4; use EPSV")
		return
	}
	if ip.IsLoopback() && !p.client.IsLoopback() { // the client came through a proxy
		p.d.log.WarnContext(p.d.ctx, "ftp: the address for PASV is not known behind this proxy: set public")
		p.d.reply(425, "This server does not know its address for PASV; use EPSV")
		return
	}
	if port, ok := p.listen(); ok {
		a := ip.As4()
		p.d.reply(227, "Entering Passive Mode (%d,%d,%d,%d,%d,%d)", a[0], a[1], a[2], a[3], port>>8, port&255)
	}
}

// epsv answers EPSV (RFC 2428), for the protocol that the client uses, IPv4 or IPv6.
func (p *ports) epsv(arg string) {
	family := "2"
	if p.client.Is4() {
		family = "1"
	}
	switch strings.ToUpper(strings.TrimSpace(arg)) {
	case "ALL":
		p.onlyEPSV = true
		p.d.reply(200, "Only EPSV from now on")
	case "", family:
		if port, ok := p.listen(); ok {
			p.d.reply(229, "Entering Extended Passive Mode (|||%d|)", port)
		}
	default:
		p.d.reply(522, "Network protocol not supported, use (%s)", family)
	}
}

// listen opens a port for a passive data connection, on the address that the client has reached. If
// it cannot, it tells the client.
func (p *ports) listen() (port int, ok bool) {
	p.drop()
	l, err := p.passive.listen(peer.Local(p.d.control.Conn))
	if err != nil {
		p.d.log.WarnContext(p.d.ctx, "ftp: cannot open a passive data channel", "err", err)
		p.d.reply(425, "No port is free for a data connection; try again")
		return 0, false
	}
	p.channel = passive(l, p.client, p.cfg.Proxies, p.cfg.DataTimeout)
	return l.Addr().(*net.TCPAddr).Port, true
}

// port answers PORT: h1,h2,h3,h4,p1,p2, the address and the port in bytes.
func (p *ports) port(arg string) {
	var b [6]byte
	parts := strings.Split(strings.TrimSpace(arg), ",")
	ok := len(parts) == len(b)
	for i := 0; ok && i < len(b); i++ {
		n, err := strconv.ParseUint(parts[i], 10, 8)
		b[i], ok = byte(n), err == nil
	}
	if !ok {
		p.d.reply(501, "PORT takes h1,h2,h3,h4,p1,p2")
		return
	}
	p.connectTo(netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[:4])), uint16(b[4])<<8|uint16(b[5])))
}

// eprt answers EPRT (RFC 2428): |family|address|port|, with any delimiter.
func (p *ports) eprt(arg string) {
	parts := strings.Split(arg, arg[:1])
	if len(parts) != 5 {
		p.d.reply(501, "EPRT takes |family|address|port|")
		return
	}
	if parts[1] != "1" && parts[1] != "2" {
		p.d.reply(522, "Network protocol not supported, use (1,2)")
		return
	}
	ip, err := netip.ParseAddr(parts[2])
	port, err2 := strconv.ParseUint(parts[3], 10, 16)
	if err != nil || err2 != nil || ip.Is4() != (parts[1] == "1") {
		p.d.reply(501, "EPRT takes |family|address|port|")
		return
	}
	p.connectTo(netip.AddrPortFrom(ip.Unmap(), uint16(port)))
}

// connectTo chooses an active data connection. It accepts only the client's own address, and no
// port of a system service, so that nobody can use the server to reach others.
func (p *ports) connectTo(to netip.AddrPort) {
	switch {
	case p.onlyEPSV:
		p.d.reply(503, "After EPSV ALL there is only EPSV")
	case to.Addr() != p.client || to.Port() < 1024:
		p.d.reply(504, "Data connections go to your own address only, and to ports from 1024 on")
	default:
		p.drop()
		p.channel = active(peer.Local(p.d.control.Conn), to, p.cfg.DataTimeout)
		p.d.reply(200, "Data connections go to %v", to)
	}
}

// drop gives up the data connection that was chosen.
func (p *ports) drop() {
	if p.channel != nil {
		p.channel.close()
		p.channel = nil
	}
}

// ready reports whether a data connection is chosen, and encrypted if it must be. If not, it tells
// the client.
func (p *ports) ready() bool {
	switch {
	case p.cfg.RequireTLS && !p.private:
		p.d.reply(521, "Data connections must be encrypted here: send PBSZ 0 and PROT P first")
	case p.channel == nil:
		p.d.reply(425, "Use PASV or EPSV first")
	default:
		return true
	}
	return false
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
