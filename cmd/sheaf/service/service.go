// Package service puts the rooms together: manager, ingest and serve in one process, or some of
// them, over one database, one object store and one catalog. The rooms do not know each other. A
// room that needs another room declares an interface, and this package connects the two.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"sheaf/cmd/sheaf/service/monitor"
	"sheaf/internal/files"
	"sheaf/internal/metrics"
	"sheaf/internal/operators"
	"sheaf/internal/transfers"
	"sheaf/manager"
	"sheaf/ui/removal"
)

// Service is a process with its rooms.
type Service struct {
	cfg       Config
	log       *slog.Logger
	state     state
	listeners listeners
	certs     certificates
	router    *mux.Router
	health    *health
	boundary  func(write, when string)
	sites     removal.Network
	stopping  chan struct{} // closed when Run begins to stop

	// Work of the rooms while the service runs, until ctx ends.
	work []func(ctx context.Context) error
	// settle records the last transfers after all work has ended; nil without roleServe.
	settle func(ctx context.Context) error
}

// Option changes the Service that New makes.
type Option func(*Service)

// WithBoundary makes the service call f before and after each durable write on a batch's way. write
// is a room and one of its Boundaries, such as "catalog/publish-run", and when is "before" or
// "after". A fault test ends the process in f. f is called concurrently.
func WithBoundary(f func(write, when string)) Option {
	return func(s *Service) { s.boundary = f }
}

// WithSites sets the network through which the service fetches a site's proof of ownership. Tests
// use a network that stays on loopback.
func WithSites(n removal.Network) Option {
	return func(s *Service) { s.sites = n }
}

// WithClock replaces the machine's clock, from which the process computes the database's time.
// Tests use a clock that is wrong.
func WithClock(now func() time.Time) Option {
	return func(s *Service) { s.state.local = now }
}

// in returns the function that a room calls before and after each durable write. It passes on to
// boundary, and counts the writes.
func (s *Service) in(room string) func(write, when string) {
	return func(write, when string) {
		s.boundary(room+"/"+write, when)
		s.state.monitor.Wrote(room, write, when)
	}
}

// New opens everything that the settings name, and listens. The caller must then call Run.
func New(ctx context.Context, cfg Config, log *slog.Logger, options ...Option) (_ *Service, err error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if err := files.MkdirAll(cfg.Data, 0o700); err != nil {
		return nil, fmt.Errorf("settings: data: %w", err)
	}
	s := &Service{cfg: cfg, log: log, boundary: func(string, string) {}, stopping: make(chan struct{}), listeners: make(listeners)}
	s.state.monitor = monitor.New()
	for _, option := range options {
		option(s)
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := s.state.open(ctx, cfg, log); err != nil {
		return nil, err
	}
	if err := s.certs.open(&cfg, s.state.db, log); err != nil {
		return nil, err
	}
	if err := s.listen(ctx); err != nil {
		return nil, err
	}
	return s, s.build(ctx)
}

// listeners are the ports at which this process listens, by the settings that name them.
type listeners map[string]net.Listener

// Settings that name ports.
const (
	portHTTP     = "http.listen"
	portDownload = "download.listen"
	portImplicit = "download.implicit"
	portDrop     = "drop.listen"
	portMetrics  = "metrics"
)

// listen listens at the addresses of the settings. If another process has the default address for
// metrics, and the settings name no other, this process serves no metrics.
func (s *Service) listen(ctx context.Context) error {
	var lc net.ListenConfig
	for _, one := range []struct {
		key, addr string
		mine      bool
	}{
		{portHTTP, s.cfg.HTTP.Listen, true},
		{portDownload, s.cfg.Download.Listen, s.cfg.has(roleServe)},
		{portImplicit, s.cfg.Download.Implicit, s.cfg.has(roleServe)},
		{portDrop, s.cfg.Drop.Listen, s.cfg.has(roleIngest)},
		{portMetrics, s.cfg.Observe.Metrics, true},
	} {
		if one.addr == "" || !one.mine {
			continue
		}
		l, err := lc.Listen(ctx, "tcp", one.addr)
		if one.addr == defaults().Observe.Metrics && errors.Is(err, syscall.EADDRINUSE) {
			s.log.WarnContext(ctx, "another process has the address of metrics; this one has none: give it an address of its own (setting metrics)", "address", one.addr)
			continue
		}
		if err != nil {
			return fmt.Errorf("settings: %s: %w", one.key, err)
		}
		s.listeners[one.key] = l
	}
	return nil
}

// at returns the host:port of a listener, or "" if there is none.
func (l listeners) at(key string) string {
	if l[key] == nil {
		return ""
	}
	return l[key].Addr().String()
}

// Addresses are where a process listens. An empty address says that it has no such server.
type Addresses struct {
	HTTP     string `json:"http"`          // URL
	Download string `json:"ftp,omitempty"` // host:port
	Implicit string `json:"ftps,omitempty"`
	Drop     string `json:"drop,omitempty"`
	Metrics  string `json:"metrics,omitempty"`
}

// Addresses returns where the process listens. For port 0 it has the port that was chosen.
func (s *Service) Addresses() Addresses {
	l := s.listeners
	return Addresses{HTTP: s.cfg.scheme() + "://" + l.at(portHTTP), Download: l.at(portDownload), Implicit: l.at(portImplicit), Drop: l.at(portDrop), Metrics: l.at(portMetrics)}
}

// OperatorToken returns the token that opens the operators' paths.
func (s *Service) OperatorToken() string { return s.state.token }

// settleTime is how long the database may take to record the last transfers.
const settleTime = 10 * time.Second

// Run serves until ctx ends or a room fails. After ctx has ended, running downloads may finish
// within Config.Stop, and Run returns nil.
func (s *Service) Run(ctx context.Context) error {
	defer s.close()
	g, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, func() { close(s.stopping) })()
	for _, work := range s.work {
		g.Go(func() error { return work(ctx) })
	}
	err := g.Wait()
	if s.settle != nil {
		bounded, cancel := context.WithTimeout(context.Background(), settleTime)
		defer cancel()
		if err := s.settle(bounded); err != nil {
			s.log.WarnContext(ctx, "the last downloads were not recorded", "err", err)
		}
	}
	s.log.InfoContext(ctx, "store", "used", s.state.objects.Usages())
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (s *Service) close() {
	for _, l := range s.listeners {
		l.Close()
	}
	s.state.close()
}

// release is the version of a packaged program. deploy/packages sets it by -ldflags.
var release string

// Version returns the program's version: that of its package or its release's tag, or else the
// commit that it was built from.
func Version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 && info.Main.Version == "(devel)" {
			return s.Value[:12]
		}
	}
	return info.Main.Version
}

// First has the first operator and the release key of a new installation.
type First struct {
	Operator   string // name of an admin
	Password   string // of the operator; empty: a random one
	ReleaseKey string // public half, in minisign's format; empty: none is registered
}

// Setup makes the data directory, the keys and the database of a new installation, and checks that
// the store can be used. It returns the operator's password. It fails if the operator exists, or if
// a service is running there.
func Setup(ctx context.Context, cfg Config, first First, log *slog.Logger) (password string, err error) {
	if err := files.MkdirAll(cfg.Data, 0o700); err != nil {
		return "", fmt.Errorf("settings: data: %w", err)
	}
	s := state{monitor: monitor.New()}
	defer s.close()
	if err := s.open(ctx, cfg, log); err != nil {
		return "", err
	}
	door := &operators.Door{Log: log}
	if err := door.Open(s.db, operators.Settings{}, ""); err != nil {
		return "", err
	}
	if first.ReleaseKey != "" { // first, because this can be repeated, and adding an operator cannot
		if err := manager.SetFirstReleaseKey(ctx, s.db, first.ReleaseKey); err != nil {
			return "", err
		}
	}
	_, password, err = door.Store.Add(ctx, operators.Operator{Name: first.Operator, Role: operators.Admin}, first.Password)
	return password, err
}

// watchMetrics adds metrics that do not belong to one room. robots may be nil.
func (s *Service) watchMetrics(robots *manager.Manager, running *transfers.Running) {
	m := s.state.monitor
	m.Collect(collectors.NewDBStatsCollector(s.state.db, "control"))
	dirs := map[string]string{"data": s.cfg.Data}
	if s.cfg.has(roleIngest) {
		dirs["buffers"] = filepath.Join(s.cfg.Data, "buffers")
	}
	if dir, ok := s.cfg.StoreDir(); ok {
		dirs["store"] = dir
	}
	m.Add(healthSource(s.health), s.certs.metrics(), monitor.Store(s.state.objects.Usages), monitor.Disks(dirs), monitor.Running(running))
	if s.cfg.has(roleManager) {
		m.Add(monitor.Manager(robots))
	}
}

// serveMetrics serves metrics and profiles until ctx ends, if they have an address.
func (s *Service) serveMetrics(ctx context.Context) error {
	if s.listeners[portMetrics] == nil {
		return nil
	}
	server := &http.Server{
		Handler: s.state.monitor.Handler(), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(s.listeners[portMetrics]); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// healthSource gives the results of the checks behind /healthz.
func healthSource(h *health) metrics.Source {
	return metrics.Source{Name: "health", Ask: func(_ context.Context, out *metrics.Out) error {
		all := h.look()
		out.Gauge("build_info", "Always 1; the label is the program's version.", 1, "version", all.Version)
		out.Gauge("up", "1 while the process can work in all of its roles.", metrics.Truth(all.Status == healthOK))
		for _, role := range all.Roles {
			out.Gauge("role_ready", "1 while the process can work in the role.", metrics.Truth(all.Ready[role] == healthOK), "role", role)
		}
		for _, c := range all.Checks {
			out.Gauge("check_up", "1 if the check succeeded: the database answers, the store can be read, the catalog is there, the disk has room, uploads are accepted, leases are granted, certificates are valid, the clock is right.",
				metrics.Truth(c.Status == healthOK), "check", c.Name)
		}
		if h.clock != nil {
			out.Gauge("clock_ahead_seconds", "By how much this machine's clock is ahead of the database's; below 0: behind.", h.clock.Ahead().Seconds())
		}
		out.Counter("damaged_records_total", "Requests for a stored record that is damaged.", float64(all.DamagedRecords))
		return nil
	}}
}
