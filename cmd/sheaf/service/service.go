// Package service puts the rooms together: manager, ingest and serve in one
// process, over one database, one store and one catalog. The rooms know nothing
// of one another; what one asks of another goes through an interface that the
// asking room declares, and it is here that they meet.
package service

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/gorilla/mux"
	"golang.org/x/sync/errgroup"

	"sheaf/archive/catalog"
	"sheaf/ingest"
	"sheaf/ingest/receive"
	"sheaf/internal/connlimit"
	"sheaf/internal/db"
	"sheaf/internal/durable"
	"sheaf/internal/ftp"
	"sheaf/internal/lease"
	"sheaf/internal/problem"
	"sheaf/internal/transfers"
	"sheaf/manager"
	"sheaf/serve"
	"sheaf/serve/ftpd"
	"sheaf/serve/httpd"
)

// Service is the rooms of one process, ready to Run.
type Service struct {
	cfg   Config
	log   *slog.Logger
	token string

	objects *Objects // nil until they are open, as db
	db      *sql.DB
	leases  lease.Locker
	leasing io.Closer

	manager  *manager.Manager
	ingest   *ingest.Ingest
	receiver *receive.Receiver
	keeper   *keeper
	download ftp.Handler
	router   *mux.Router

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
	if s.token, err = Token(cfg.Data); err != nil {
		return nil, err
	}
	key, err := receiptKey(cfg.Data)
	if err != nil {
		return nil, err
	}
	if err := s.listen(ctx); err != nil {
		return nil, err
	}
	if err := s.build(ctx, key); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Service) listen(ctx context.Context) (err error) {
	var lc net.ListenConfig
	for _, l := range []struct {
		key, addr string
		to        *net.Listener
	}{
		{"http.listen", s.cfg.HTTP.Listen, &s.http},
		{"download.listen", s.cfg.Download.Listen, &s.get},
		{"drop.listen", s.cfg.Drop.Listen, &s.drop},
	} {
		if l.addr == "" {
			continue
		}
		if *l.to, err = lc.Listen(ctx, "tcp", l.addr); err != nil {
			return fmt.Errorf("settings: %s: %w", l.key, err)
		}
	}
	return nil
}

// build makes the rooms, from the store upwards.
func (s *Service) build(ctx context.Context, key ed25519.PrivateKey) (err error) {
	zone, err := time.LoadLocation(s.cfg.Zone)
	if err != nil {
		return err
	}
	publishWindow, err := s.cfg.publishWindow()
	if err != nil {
		return err
	}
	if s.objects, err = OpenStore(ctx, s.cfg); err != nil {
		return err
	}
	objects := s.objects
	published, err := catalog.Open(ctx, objects, catalog.Options{Location: zone, Boundary: s.in(roomCatalog)})
	if err != nil {
		return err
	}
	if s.db, err = db.Open(ctx, s.cfg.database()); err != nil {
		return err
	}
	if s.leases, s.leasing, err = openLeases(s.cfg, s.db, s.log); err != nil {
		return err
	}
	moved := transfers.New(s.db)
	operator := operatorsOnly(s.token)

	s.manager = manager.New(s.db, manager.Options{
		Key: key, Dir: filepath.Join(s.cfg.Data, "manager"), FTP: s.Addresses().Drop,
		Public:   strings.TrimRight(s.cfg.HTTP.Public, "/"),
		Operator: operator, Log: s.log,
		Policy:  manager.Policy{Accept: s.cfg.Hosts.Suffixes, Refuse: s.cfg.Hosts.Refuse, PerDomain: s.cfg.Hosts.PerDomain},
		Balance: s.cfg.Balance.options(zone),
	})
	buffers := filepath.Join(s.cfg.Data, "buffers")
	s.ingest, err = ingest.New(ctx, ingest.Options{
		DB: s.db, Dir: buffers, Store: objects, Catalog: published, Robots: s.manager, Key: key,
		Window: publishWindow, Zone: zone, Log: s.log, Limits: ingest.Limits{Poll: s.cfg.Poll},
		Leases:   s.leases,
		Packs:    ingest.Packs{Below: int64(s.cfg.Packs.Below), Size: int64(s.cfg.Packs.Size)},
		Boundary: s.in(roomIngest),
	})
	if err != nil {
		return err
	}
	s.keeper = &keeper{catalog: published, claims: s.ingest.Claims, collect: s.cfg.Collect, merge: s.cfg.Poll, leases: s.leases, log: s.log}
	local, ok := s.cfg.StoreDir()
	if !ok {
		local = "" // the archives lie elsewhere
	}
	disks, err := ingest.Disks(buffers, local)
	if err != nil {
		return err
	}
	s.receiver, err = receive.New(ctx, receive.Options{
		Disks: disks, Shared: s.cfg.Database.URL != "",
		Dir: buffers, Batches: s.ingest, Robots: s.manager, Transfers: moved, Log: s.log,
		Quiet: s.cfg.Drop.Quiet, CutOff: s.cfg.Drop.CutOff, Least: int64(s.cfg.Uploads.Least),
		Boundary: s.in(roomReceive),
	})
	if err != nil {
		return err
	}
	library, err := serve.NewLibrary(serve.Options{Catalog: published, Store: objects, Grace: s.cfg.Access.Grace, Lag: readersLag})
	if err != nil {
		return err
	}
	s.keeper.needs = library.Expendable
	accounts, err := serve.NewAccounts(s.db, s.cfg.anonymous())
	if err != nil {
		return err
	}

	s.router = mux.NewRouter()
	s.router.NotFoundHandler = http.HandlerFunc(problem.NotFound)
	s.router.MethodNotAllowedHandler = http.HandlerFunc(problem.MethodNotAllowed)
	s.manager.Register(s.router)
	s.ingest.Register(s.router, operator)
	s.keeper.Register(s.router, operator)
	if err := s.receiver.Register(s.router); err != nil {
		return err
	}
	transfers.Register(s.router, operator, moved)
	err = httpd.Register(s.router, httpd.Options{
		Library: library, Accounts: accounts, Recorder: moved, Operator: operator, Version: Version(), Log: s.log,
		Stopping: s.stopping,
	})
	if err != nil {
		return err
	}
	s.download, err = ftpd.New(ftpd.Options{Library: library, Accounts: accounts, Recorder: moved, Log: s.log})
	return err
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
	server := &http.Server{
		Handler:           s.router,
		ReadHeaderTimeout: 20 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ConnState:         connlimit.New(connlimit.Limits{Total: s.cfg.HTTP.Connections, PerAddress: s.cfg.HTTP.PerAddress}).ConnState,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	getFTP, err := s.ftpConfig(s.cfg.Download, s.get)
	if err != nil {
		return err
	}
	dropFTP, err := s.ftpConfig(s.cfg.Drop.FTP, s.drop)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.manager.Run(ctx) })
	g.Go(func() error { return s.ingest.Run(ctx) })
	g.Go(func() error { return s.keeper.Run(ctx) })
	g.Go(func() error { return s.receiver.Run(ctx) })
	g.Go(func() error {
		err := serveHTTP(server, s.http, s.cfg.HTTP.Cert, s.cfg.HTTP.Key)
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
	s.log.Info("store", "used", s.objects.Usages())
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func serveHTTP(server *http.Server, l net.Listener, cert, key string) error {
	if cert != "" {
		return server.ServeTLS(l, cert, key)
	}
	return server.Serve(l)
}

func (s *Service) ftpConfig(f FTP, l net.Listener) (ftp.Config, error) {
	c := ftp.Config{Listener: l, PassivePorts: [2]int{f.Ports[0], f.Ports[1]}, StopTimeout: s.cfg.Stop, Log: s.log}
	if f.Public != "" {
		c.PublicIP = netip.MustParseAddr(f.Public)
	}
	if f.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return c, fmt.Errorf("settings: FTP certificate %s: %w", f.Cert, err)
		}
		c.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	return c, nil
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
}

// readersLag is how old the newest version may be that readers see, of what other
// processes publish: so a visit does not have to ask a store that is far away.
const readersLag = time.Second
