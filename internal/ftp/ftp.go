package ftp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	goftp "goftp.io/server/v2"

	"sheaf/internal/peer"
)

// Config says how a server listens and what it bears. The zero value of every
// field but Addr and Listener is a usable default.
type Config struct {
	Addr     string       // "host:port" to listen on, where Listener is nil
	Listener net.Listener // taken over, and closed by Run

	Greeting     string     // text of the 220 reply, one line
	Contact      string     // whom to ask, told to those who are turned away; may be empty
	PublicIP     netip.Addr // IPv4 address told in PASV replies; default: the address that the client reached
	PassivePorts [2]int     // first and last port for passive data channels; default: any the system gives
	NoActive     bool       // refuse PORT and EPRT

	// Proxies are trusted to say who their clients are: each control connection from them, and each
	// data connection, must begin with a PROXY header (version 1 or 2).
	Proxies peer.Proxies

	TLS        *tls.Config // certificate for AUTH TLS; nil: AUTH is refused
	RequireTLS bool        // refuse logins and data channels without TLS

	LoginTimeout time.Duration // from the connection to a successful login; default 30 seconds
	IdleTimeout  time.Duration // between two commands; default 5 minutes
	DataTimeout  time.Duration // for the data channel to open, for a client to send something, and to take 128 KiB; default 1 minute
	StopTimeout  time.Duration // how long running transfers may go on once Run's context is done; default 30 seconds

	MaxConns      int // connections at once; default 1000
	MaxPerAddr    int // of them, from one address; default 50
	MaxPerAccount int // of them, logged in as one user; default 20

	Log *slog.Logger // default: slog.Default
}

func (c Config) withDefaults() (Config, error) {
	lo, hi := c.PassivePorts[0], c.PassivePorts[1]
	switch {
	case lo < 0 || hi > 65535 || lo > hi || lo == 0 && hi != 0:
		return c, fmt.Errorf("ftp: passive ports %d-%d: give first and last, between 1 and 65535, or neither", lo, hi)
	case c.PublicIP.IsValid() && !c.PublicIP.Unmap().Is4():
		return c, fmt.Errorf("ftp: public address %v: PASV can only tell an IPv4 address", c.PublicIP)
	case c.RequireTLS && c.TLS == nil:
		return c, errors.New("ftp: TLS is required, but there is no certificate")
	}
	c.Greeting = orDefault(strings.Join(strings.Fields(c.Greeting), " "), "sheaf FTP service")
	c.Contact = strings.Join(strings.Fields(c.Contact), " ")
	c.LoginTimeout = orDefault(c.LoginTimeout, 30*time.Second)
	c.IdleTimeout = orDefault(c.IdleTimeout, 5*time.Minute)
	c.DataTimeout = orDefault(c.DataTimeout, time.Minute)
	c.StopTimeout = orDefault(c.StopTimeout, 30*time.Second)
	c.MaxConns = orDefault(c.MaxConns, 1000)
	c.MaxPerAddr = orDefault(c.MaxPerAddr, 50)
	c.MaxPerAccount = orDefault(c.MaxPerAccount, 20)
	c.Log = orDefault(c.Log, slog.Default())
	return c, nil
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Run serves FTP until ctx is done. Then it takes no more connections, tells
// idle sessions 421, lets running transfers finish within StopTimeout, cuts
// what is left, and returns nil.
func Run(ctx context.Context, cfg Config, h Handler) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	l := cfg.Listener
	if l == nil {
		if l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Addr); err != nil {
			return fmt.Errorf("ftp: %w", err)
		}
	}
	l = behindProxies(l, cfg.Proxies)
	e := newEngine(cfg, h)
	server, err := goftp.NewServer(&goftp.Options{
		Commands:       e.commands(),
		Driver:         newStatOnly(),
		Auth:           vouched{},
		Perm:           goftp.NewSimplePerm("ftp", "ftp"),
		WelcomeMessage: cfg.Greeting,
		Logger:         quiet{cfg.Log},
	})
	if err != nil {
		l.Close()
		return fmt.Errorf("ftp: %w", err)
	}

	stopping := context.AfterFunc(ctx, func() { l.Close() })
	defer stopping()
	err = server.Serve(&listener{l, e})
	if ctx.Err() == nil {
		err = fmt.Errorf("ftp: stopped accepting on %v: %w", l.Addr(), err)
	} else {
		err = nil
	}
	err = errors.Join(err, e.drain(cfg.StopTimeout))
	e.follower.Close()
	return err
}
