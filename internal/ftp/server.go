package ftp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	goftp "goftp.io/server/v2"
	"golang.org/x/sync/errgroup"

	"sheaf/internal/stream"
)

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
