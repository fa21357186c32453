package ftp

import (
	"net/netip"
	"strconv"
	"strings"
)

// pasv answers PASV.
func (c *conn) pasv(string) {
	if c.onlyEPSV {
		c.reply(503, "After EPSV ALL there is only EPSV")
		return
	}
	ip := c.engine.PublicIP.Unmap()
	if !ip.IsValid() {
		ip = local(c.Conn)
	}
	if !ip.Is4() {
		c.reply(425, "PASV is for IPv4; use EPSV")
		return
	}
	p, err := c.listenPassive()
	if err != nil {
		c.noPort(err)
		return
	}
	a, port := ip.As4(), p.port()
	c.reply(227, "Entering Passive Mode (%d,%d,%d,%d,%d,%d)", a[0], a[1], a[2], a[3], port>>8, port&255)
}

// epsv answers EPSV (RFC 2428).
func (c *conn) epsv(arg string) {
	family := "2"
	if c.peer.Is4() {
		family = "1"
	}
	switch arg = strings.ToUpper(strings.TrimSpace(arg)); arg {
	case "ALL":
		c.onlyEPSV = true
		c.reply(200, "Only EPSV from now on")
		return
	case "", family:
	default:
		c.reply(522, "Network protocol not supported, use (%s)", family)
		return
	}
	p, err := c.listenPassive()
	if err != nil {
		c.noPort(err)
		return
	}
	c.reply(229, "Entering Extended Passive Mode (|||%d|)", p.port())
}

func (c *conn) noPort(err error) {
	c.log.Warn("ftp: cannot open a passive data channel", "error", err)
	c.reply(425, "No port is free for a data connection; try again")
}

// portCommand answers PORT.
func (c *conn) portCommand(arg string) {
	var b [6]byte
	parts := strings.Split(strings.TrimSpace(arg), ",")
	ok := len(parts) == len(b)
	for i := 0; ok && i < len(b); i++ {
		n, err := strconv.ParseUint(parts[i], 10, 8)
		b[i], ok = byte(n), err == nil
	}
	if !ok {
		c.reply(501, "PORT takes h1,h2,h3,h4,p1,p2")
		return
	}
	c.activate(netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[:4])), uint16(b[4])<<8|uint16(b[5])))
}

// eprt answers EPRT (RFC 2428): |family|address|port|, with any delimiter.
func (c *conn) eprt(arg string) {
	parts := strings.Split(arg, arg[:1])
	if len(parts) != 5 {
		c.reply(501, "EPRT takes |family|address|port|")
		return
	}
	if parts[1] != "1" && parts[1] != "2" {
		c.reply(522, "Network protocol not supported, use (1,2)")
		return
	}
	ip, err := netip.ParseAddr(parts[2])
	port, err2 := strconv.ParseUint(parts[3], 10, 16)
	if err != nil || err2 != nil || ip.Is4() != (parts[1] == "1") {
		c.reply(501, "EPRT takes |family|address|port|")
		return
	}
	c.activate(netip.AddrPortFrom(ip.Unmap(), uint16(port)))
}

// activate chooses an active data channel. It leads to the client and to no
// port of a system service: the server connects to nobody else's behalf.
func (c *conn) activate(to netip.AddrPort) {
	switch {
	case c.engine.NoActive:
		c.reply(502, "Active mode is off; use PASV or EPSV")
	case c.onlyEPSV:
		c.reply(503, "After EPSV ALL there is only EPSV")
	case to.Addr() != c.peer || to.Port() < 1024:
		c.reply(504, "Data connections go to your own address only, and to ports from 1024 on")
	default:
		c.dropChannel()
		c.channel = &active{local(c.Conn), to, c.engine.DataTimeout}
		c.reply(200, "Data connections go to %v", to)
	}
}
