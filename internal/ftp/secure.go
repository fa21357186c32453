package ftp

import (
	"context"
	"crypto/tls"
	"strings"
	"time"
)

const handshakeTimeout = 10 * time.Second

// auth answers AUTH: TLS begins below goftp, which never sees it.
func (c *conn) auth(arg string) {
	switch strings.ToUpper(strings.TrimSpace(arg)) {
	case "TLS", "TLS-C", "SSL":
	default:
		c.reply(504, "Only AUTH TLS is known")
		return
	}
	switch {
	case c.engine.TLS == nil:
		c.reply(502, "There is no TLS on this service")
		return
	case c.tls != nil, c.session != nil:
		c.reply(503, "AUTH comes once, before the login")
		return
	case len(c.pending) > 0:
		// Commands sent in clear text behind AUTH would count as if they had
		// come encrypted.
		c.reply(503, "Commands sent ahead of TLS")
		c.hangup = true
		return
	}
	c.reply(234, "Begin TLS")
	secure := tls.Server(c.Conn, c.engine.TLS)
	ctx, cancel := context.WithTimeout(c.ctx, handshakeTimeout)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		c.log.Info("ftp: TLS handshake failed", "error", err)
		c.hangup = true
		return
	}
	c.tls = secure
	c.user = "" // named in clear text
}

// pbsz answers PBSZ: TLS needs no buffer size.
func (c *conn) pbsz(string) {
	if c.tls == nil {
		c.reply(503, "AUTH TLS comes first")
		return
	}
	c.reply(200, "PBSZ=0")
}

// prot answers PROT: whether data channels are private or clear.
func (c *conn) prot(arg string) {
	switch level := strings.ToUpper(strings.TrimSpace(arg)); {
	case c.tls == nil:
		c.reply(503, "AUTH TLS comes first")
	case level == "P":
		c.private = true
		c.reply(200, "Data channels are encrypted")
	case level == "C" && c.engine.RequireTLS:
		c.reply(534, "Data channels must be encrypted here")
	case level == "C":
		c.private = false
		c.reply(200, "Data channels are in clear text")
	case level == "S", level == "E":
		c.reply(536, "Only PROT P and PROT C are known")
	default:
		c.reply(504, "Only PROT P and PROT C are known")
	}
}
