// Package service puts the rooms together: manager, ingest and serve in one
// process, or some of them, over one database, one store and one catalog. The rooms know nothing
// of one another; what one asks of another goes through an interface that the
// asking room declares, and it is here that they meet.
package service

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/gorilla/mux"
	"golang.org/x/sync/errgroup"

	"sheaf/archive/catalog"
	"sheaf/ingest"
	"sheaf/ingest/receive"
	"sheaf/ingest/upkeep"
	"sheaf/internal/acked"
	"sheaf/internal/connlimit"
	"sheaf/internal/durable"
	"sheaf/internal/ftp"
	"sheaf/internal/lease"
	"sheaf/internal/peer"
	"sheaf/internal/transfers"
	"sheaf/manager"
	"sheaf/serve"
	"sheaf/serve/account"
	"sheaf/serve/bandwidth"
	"sheaf/serve/httpd/player"
	"sheaf/serve/jobs"
	"sheaf/serve/watch"
)

// Service is the rooms of one process, ready to Run.
type Service struct {
	cfg   Config
	log   *slog.Logger
	token string
	key   ed25519.PrivateKey // signs receipts; nil where the process neither manages nor ingests

	lock    io.Closer // of the data directory; nil until it is held
	objects *Objects  // nil until they are open, as db
	db      *sql.DB
	leases  lease.Locker
	leasing io.Closer

	// What the process has by its roles; the rest is nil.
	manager   *manager.Manager // ingest asks it about robots, and only the role runs it
	ingest    *ingest.Ingest
	receiver  *receive.Receiver
	collector *upkeep.Collector
	indexer   *upkeep.Indexer
	accounts  *account.Accounts
	recorder  *transfers.Buffer
	running   *transfers.Running
	measures  *acked.Follower
	jobs      *jobs.Jobs
	watches   *watch.Watches
	meter     *bandwidth.Meter
	download  ftp.Handler
	router    *mux.Router
	catalog   *catalog.Catalog // as archives, nil in a process that only manages
	archives  *serve.Library
	checks    []*checkup

	boundary func(write, when string)

	stopping chan struct{} // closed when Run begins to stop

	http, get, drop net.Listener // get and drop are the FTP servers'; nil where not configured
}

// Addresses are where a service can be reached.
type Addresses struct {
	HTTP     string `json:"http"`          // URL
	Download string `json:"ftp,omitempty"` // host:port
	Drop     string `json:"drop,omitempty"`
}

// New opens everything that the settings name and listens. What it returns must be Run.
func New(ctx context.Context, cfg Config, log *slog.Logger, options ...Option) (_ *Service, err error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if err := durable.MkdirAll(cfg.Data, 0o700); err != nil {
		return nil, fmt.Errorf("settings: data: %w", err)
	}
	s := &Service{cfg: cfg, log: log, boundary: func(string, string) {}, stopping: make(chan struct{})}
	for _, option := range options {
		option(s)
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	if err := s.listen(ctx); err != nil {
		return nil, err
	}
	if err := s.build(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// open opens the store, the database and the keys. It makes none of them before it is sure that they belong
// together.
func (s *Service) open(ctx context.Context) (err error) {
	if s.lock, err = lockData(s.cfg); err != nil {
		return err
	}
	used, err := databaseUsed(ctx, s.cfg, s.log)
	if err != nil {
		return err
	}
	if s.objects, err = OpenStore(ctx, s.cfg); err != nil {
		return err
	}
	if !used {
		if err := checkBeside(ctx, s.cfg, s.objects); err != nil {
			return err
		}
	}
	if s.db, err = openDatabase(ctx, s.cfg); err != nil {
		return err
	}
	if s.cfg.has(roleManager, roleIngest) {
		if s.key, err = receiptKey(ctx, s.db, s.cfg.Data); err != nil {
			return err
		}
	}
	s.token, err = Token(s.cfg.Data)
	return err
}

func (s *Service) listen(ctx context.Context) (err error) {
	var lc net.ListenConfig
	for _, l := range []struct {
		key, addr string
		to        *net.Listener
		mine      bool
	}{
		{"http.listen", s.cfg.HTTP.Listen, &s.http, true},
		{"download.listen", s.cfg.Download.Listen, &s.get, s.cfg.has(roleServe)},
		{"drop.listen", s.cfg.Drop.Listen, &s.drop, s.cfg.has(roleIngest)},
	} {
		if l.addr == "" || !l.mine {
			continue
		}
		if *l.to, err = lc.Listen(ctx, "tcp", l.addr); err != nil {
			return fmt.Errorf("settings: %s: %w", l.key, err)
		}
	}
	return nil
}

// Addresses gives where the service listens.
func (s *Service) Addresses() Addresses {
	scheme := "http"
	if s.cfg.HTTP.Cert != "" {
		scheme = "https"
	}
	a := Addresses{HTTP: scheme + "://" + s.http.Addr().String()}
	if s.get != nil {
		a.Download = s.get.Addr().String()
	}
	if s.drop != nil {
		a.Drop = s.drop.Addr().String()
	}
	return a
}

// OperatorToken is the token of the operators' paths.
func (s *Service) OperatorToken() string { return s.token }

// Run serves until ctx ends; then it lets running transfers finish within the
// configured time, and returns nil. It ends too when one of the rooms fails.
func (s *Service) Run(ctx context.Context) error {
	defer s.close()
	proxies, err := peer.ParseProxies(s.cfg.HTTP.Proxies)
	if err != nil {
		return err
	}
	server := httpServer(connlimit.Limits{Total: s.cfg.HTTP.Connections, PerAddress: s.cfg.HTTP.PerAddress}, proxies, s.handler(), s.log)
	getFTP, err := s.cfg.Download.server(s.get, s.cfg.Access.Contact, s.cfg.Stop, s.log)
	if err != nil {
		return err
	}
	dropFTP, err := s.cfg.Drop.server(s.drop, s.cfg.Stop, s.log)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, work := range s.work() {
		g.Go(func() error { return work(ctx) })
	}
	g.Go(func() error {
		err := serveHTTP(server, acked.Listener(s.http), s.cfg.HTTP.Cert, s.cfg.HTTP.Key)
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("http: %w", err)
	})
	g.Go(func() error {
		<-ctx.Done()
		close(s.stopping)
		bounded, cancel := context.WithTimeout(context.Background(), s.cfg.Stop)
		defer cancel()
		if err := server.Shutdown(bounded); err != nil {
			s.log.Warn("http: transfers were cut at the stop", "err", err)
			return server.Close()
		}
		return nil
	})
	if s.get != nil {
		g.Go(func() error { return ftp.Run(ctx, getFTP, s.download) })
	}
	if s.drop != nil {
		g.Go(func() error { return ftp.Run(ctx, dropFTP, s.receiver.FTP()) })
	}
	err = g.Wait()
	s.settle()
	s.log.Info("store", "used", s.objects.Usages())
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// handler answers all requests.
func (s *Service) handler() http.Handler {
	return byteRanges(player.Only(s.cfg.Replay.Origin, s.router))
}

// settle writes down what the last transfers have come to, now that none is under way.
func (s *Service) settle() {
	if !s.cfg.has(roleServe) {
		return
	}
	s.measures.Close()
	bounded, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	if err := errors.Join(s.recorder.Flush(bounded), s.meter.Flush(bounded)); err != nil {
		s.log.Warn("the last downloads were not noted", "err", err)
	}
}

// settleTime is how long the database may take for that.
const settleTime = 10 * time.Second

func serveHTTP(server *http.Server, l net.Listener, cert, key string) error {
	if cert != "" {
		return server.ServeTLS(l, cert, key)
	}
	return server.Serve(l)
}

func (s *Service) close() {
	for _, l := range []net.Listener{s.http, s.get, s.drop} {
		if l != nil {
			l.Close()
		}
	}
	if s.leasing != nil {
		s.leasing.Close()
	}
	if s.db != nil {
		s.db.Close()
	}
	if s.objects != nil {
		s.objects.Close()
	}
	if s.lock != nil {
		s.lock.Close()
	}
}
