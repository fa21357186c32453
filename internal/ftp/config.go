package ftp

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"sheaf/internal/peer"
)

// Config has the settings of a server. Only Addr or Listener must be set.
type Config struct {
	Addr     string       // "host:port" to listen on, if Listener is nil
	Listener net.Listener // closed by Run
	Implicit net.Listener // also closed by Run; its clients begin with TLS ("implicit FTPS", without AUTH); nil: no implicit TLS

	Greeting     string     // text of the 220 reply, one line
	Contact      string     // contact that refused clients are told; may be empty
	PublicIP     netip.Addr // IPv4 address in PASV replies; default: the address that the client reached
	PassivePorts [2]int     // first and last port for passive data connections; default: any

	// Proxies are trusted to name their clients' addresses: each control connection and each data
	// connection from a proxy must begin with a PROXY header (version 1 or 2).
	Proxies peer.Proxies

	TLS        *tls.Config // with the certificate; nil: AUTH is refused. A data connection may resume its control connection's TLS session
	RequireTLS bool        // refuse logins and data connections without TLS

	LoginTimeout time.Duration // from the connection to a successful login; default 30 seconds
	IdleTimeout  time.Duration // between two commands; default 5 minutes
	DataTimeout  time.Duration // to open a data connection, for a client to send something, and to accept 128 KiB; default 1 minute
	StopTimeout  time.Duration // for running transfers once Run's context is done; default 30 seconds

	MaxConns      int // connections at once; default 1000
	MaxPerAddr    int // connections from one address; default 50
	MaxPerAccount int // connections logged in as one user; default 20

	Counts *Counts      // counts connections; nil: nobody counts
	Log    *slog.Logger // nil: discards
}

// Counts has the numbers of a server's connections, now and since it began. They may be read at any
// time.
type Counts struct {
	Open     atomic.Int64 // now
	Accepted atomic.Int64
	Refused  atomic.Int64 // connections beyond a limit
	Logins   atomic.Int64 // successful logins
	Secured  atomic.Int64 // data connections over TLS
	Resumed  atomic.Int64 // data connections that resumed a TLS session
}

func (c Config) withDefaults() (Config, error) {
	first, last := c.PassivePorts[0], c.PassivePorts[1]
	switch {
	case first < 0 || last > 65535 || first > last || first == 0 && last != 0:
		return c, fmt.Errorf("ftp: passive ports %d-%d: give first and last, between 1 and 65535, or neither", first, last)
	case c.PublicIP.IsValid() && !c.PublicIP.Unmap().Is4():
		return c, fmt.Errorf("ftp: public address %v: PASV can only tell an IPv4 address", c.PublicIP)
	case c.RequireTLS && c.TLS == nil:
		return c, errors.New("ftp: TLS is required, but there is no certificate")
	case c.Implicit != nil && c.TLS == nil:
		return c, errors.New("ftp: implicit TLS needs a certificate")
	}
	if c.TLS != nil {
		c.TLS = c.TLS.Clone()
		c.TLS.GetConfigForClient = refuseBrowsers
	}
	c.Greeting = cmp.Or(strings.Join(strings.Fields(c.Greeting), " "), "sheaf FTP service")
	c.Contact = strings.Join(strings.Fields(c.Contact), " ")
	c.LoginTimeout = cmp.Or(c.LoginTimeout, 30*time.Second)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 5*time.Minute)
	c.DataTimeout = cmp.Or(c.DataTimeout, time.Minute)
	c.StopTimeout = cmp.Or(c.StopTimeout, 30*time.Second)
	c.MaxConns = cmp.Or(c.MaxConns, 1000)
	c.MaxPerAddr = cmp.Or(c.MaxPerAddr, 50)
	c.MaxPerAccount = cmp.Or(c.MaxPerAccount, 20)
	c.Counts = cmp.Or(c.Counts, new(Counts))
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c, nil
}

// refuseBrowsers ends handshakes of clients that want to speak HTTP. Without it, an attacker in the
// network could redirect a browser's request from the web server of the same name to this server,
// and the browser would take the FTP replies for the web server's answer (the ALPACA attack, USENIX
// Security 2021).
func refuseBrowsers(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	for _, protocol := range hello.SupportedProtos {
		if protocol == "h2" || strings.HasPrefix(protocol, "http/") {
			return nil, fmt.Errorf("the client wants to speak %s", protocol)
		}
	}
	return nil, nil // the configuration stays
}
