package ftp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	goftp "goftp.io/server/v2"
	"golang.org/x/sync/errgroup"

	"sheaf/internal/peer"
	"sheaf/internal/stream"
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

// Run serves FTP until ctx is done. Then it accepts no more connections, sends idle clients 421,
// lets running transfers finish within StopTimeout, cuts the rest, and returns nil.
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
	s := newServer(cfg, h)
	accepting, ctx := errgroup.WithContext(ctx)
	accepting.Go(func() error { return s.accept(ctx, &listener{cfg.Proxies.Listener(l), s, false}) })
	if cfg.Implicit != nil {
		accepting.Go(func() error { return s.accept(ctx, &listener{cfg.Proxies.Listener(cfg.Implicit), s, true}) })
	}
	err = errors.Join(accepting.Wait(), s.registry.drain(cfg.StopTimeout))
	s.follower.Close()
	return err
}

// accept makes goftp serve the clients of l until ctx ends, and closes l.
func (s *server) accept(ctx context.Context, l *listener) error {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	loops, err := goftp.NewServer(&goftp.Options{
		Commands:       commandTable(),
		Perm:           goftp.NewSimplePerm("", ""), // must not be nil; no command uses it
		WelcomeMessage: s.cfg.Greeting,
		Logger:         new(goftp.DiscardLogger),
	})
	if err != nil {
		l.Close()
		return fmt.Errorf("ftp: %w", err)
	}
	if err = loops.Serve(l); ctx.Err() == nil {
		return fmt.Errorf("ftp: stopped accepting on %v: %w", l.Addr(), err)
	}
	return nil
}

// server has what the clients of one server share.
type server struct {
	cfg      Config
	handler  Handler
	registry *registry
	passive  portRange
	follower *stream.Follower // follows downloads that are sent and not yet acknowledged
}

func newServer(cfg Config, h Handler) *server {
	return &server{
		cfg: cfg, handler: h, registry: newRegistry(cfg),
		passive: newPortRange(cfg.PassivePorts[0], cfg.PassivePorts[1]), follower: stream.NewFollower(),
	}
}

// listener gives goftp the connections of clients, within the limits.
type listener struct {
	net.Listener
	server   *server
	implicit bool // clients begin with TLS
}

// Accept waits out a lack of file descriptors: goftp would try again in a tight loop.
func (l *listener) Accept() (net.Conn, error) {
	pause := time.Millisecond
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil, err
			}
			l.server.cfg.Log.Warn("ftp: cannot accept a connection", "err", err, "again", pause)
			time.Sleep(pause)
			pause = min(2*pause, time.Second)
			continue
		}
		pause = time.Millisecond
		c := newClient(context.Background(), l.server, raw)
		if refusal := l.server.registry.admit(c.place); refusal != nil {
			if !l.implicit { // the greeting would wait for the handshake
				c.Reply(refusal.Code, refusal.Msg)
			}
			raw.Close()
			continue
		}
		if l.implicit {
			c.secure(l.server.cfg.TLS)
		}
		return c, nil
	}
}
