package service

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/urlindex"
	"sheaf/cmd/sheaf/service/openapi"
	"sheaf/ingest"
	"sheaf/ingest/foreign"
	"sheaf/ingest/receive"
	"sheaf/ingest/space"
	"sheaf/ingest/split"
	"sheaf/ingest/upkeep"
	"sheaf/internal/acked"
	"sheaf/internal/guesses"
	"sheaf/internal/problem"
	"sheaf/internal/transfers"
	"sheaf/manager"
	"sheaf/manager/hosts"
	"sheaf/serve"
	"sheaf/serve/account"
	"sheaf/serve/bandwidth"
	"sheaf/serve/ftpd"
	"sheaf/serve/httpd"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/jobs"
)

// common is what the rooms of one process stand on.
type common struct {
	zone     *time.Location
	objects  store.Store      // as this process may change it
	catalog  *catalog.Catalog // nil in a process that only manages
	moved    *transfers.Log
	operator func(http.Handler) http.Handler
	guesses  *guesses.Limiter
}

// build makes the rooms of the process's roles, from the store upwards.
func (s *Service) build(ctx context.Context) (err error) {
	limit := guesses.New(s.log)
	c := common{operator: operatorsOnly(s.token, limit, guard.SameOrigin(s.cfg.HTTP.Public)), guesses: limit}
	if c.zone, err = time.LoadLocation(s.cfg.Zone); err != nil {
		return err
	}
	c.objects = s.cfg.confined(s.objects)
	if s.cfg.has(roleIngest, roleServe) {
		c.catalog, err = catalog.Open(ctx, c.objects, catalog.Options{Location: c.zone, Boundary: s.in(roomCatalog)})
		if err != nil {
			return err
		}
	}
	c.moved = transfers.New(s.db)
	s.router = mux.NewRouter()
	s.router.NotFoundHandler = http.HandlerFunc(s.notFound)
	s.router.MethodNotAllowedHandler = http.HandlerFunc(problem.MethodNotAllowed)
	for path, h := range map[string]http.HandlerFunc{PathLive: s.live, PathReady: s.ready, PathHealth: s.health} {
		s.router.HandleFunc(path, h).Methods(http.MethodGet, http.MethodHead)
	}
	openapi.Register(s.router)
	s.running, s.measures = new(transfers.Running), acked.NewFollower()
	transfers.Register(s.router, c.operator, c.moved, s.running, c.zone)

	var library *serve.Library
	if c.catalog != nil {
		// Who ingests asks the library what current is made of, when old editions expire.
		if library, err = s.library(c); err != nil {
			return err
		}
	}
	if s.cfg.has(roleManager, roleIngest) {
		if err := s.buildManager(ctx, c); err != nil {
			return err
		}
	}
	if s.cfg.has(roleIngest) {
		if err := s.buildIngest(ctx, c, library); err != nil {
			return err
		}
	}
	if s.cfg.has(roleServe) {
		if err := s.buildServe(ctx, c, library); err != nil {
			return err
		}
	}
	s.catalog, s.archives = c.catalog, library
	s.checks = s.checkups()
	return nil
}

// library makes the library, and what it asks about accounts.
func (s *Service) library(c common) (*serve.Library, error) {
	var err error
	if s.accounts, err = account.NewAccounts(s.db, s.cfg.Access.account(), account.DefaultCost); err != nil {
		return nil, err
	}
	s.accounts.Guesses = c.guesses
	line, err := rates(s.cfg.Access.Rate)
	if err != nil {
		return nil, err
	}
	s.meter = bandwidth.New(bandwidth.Options{DB: s.db, Line: line, Zone: c.zone, Log: s.log})
	return serve.NewLibrary(serve.Options{
		Catalog: c.catalog, Store: c.objects, Accounts: s.accounts, Meter: s.meter,
		Grace: s.cfg.Access.Grace, Contact: s.cfg.Access.Contact, Lag: readersLag,
		URLs: urlindex.NewReader(c.objects, urlindex.ReaderOptions{Lag: readersLag}), Log: s.log,
	})
}

// buildManager makes the manager, and mounts its paths where the process has its role.
// Without that, ingest asks it for robots' keys and assignments.
func (s *Service) buildManager(ctx context.Context, c common) (err error) {
	if s.leases, s.leasing, err = openLeases(s.cfg, s.db, s.log); err != nil {
		return err
	}
	drop := s.Addresses().Drop
	if !s.cfg.has(roleIngest) {
		drop = s.cfg.Drop.Listen // another process's
	}
	s.manager = manager.New(s.db, manager.Options{
		Key: s.key, Dir: filepath.Join(s.cfg.Data, "manager"), Store: c.objects, FTP: drop,
		Public:   strings.TrimRight(s.cfg.HTTP.Public, "/"),
		Operator: c.operator, Guesses: c.guesses, Log: s.log,
		Policy:  hosts.Policy{Accept: s.cfg.Hosts.Suffixes, Refuse: s.cfg.Hosts.Refuse, PerDomain: s.cfg.Hosts.PerDomain},
		Balance: s.cfg.Balance.options(c.zone), Leases: s.leases,
	})
	if s.cfg.has(roleManager) {
		s.manager.Register(s.router)
		s.router.Handle(PathBackup, c.operator(http.HandlerFunc(s.serveBackup))).Methods(http.MethodGet)
	}
	return nil
}

// buildIngest makes what takes batches, publishes them and keeps the catalog in shape.
func (s *Service) buildIngest(ctx context.Context, c common, library *serve.Library) error {
	publishWindow, err := s.cfg.publishWindow()
	if err != nil {
		return err
	}
	buffers := filepath.Join(s.cfg.Data, "buffers")
	hosts, err := hostMap(s.cfg.Drop.Hosts)
	if err != nil {
		return err
	}
	s.ingest, err = ingest.New(ctx, ingest.Options{
		DB: s.db, Dir: buffers, Store: c.objects, Catalog: c.catalog, Robots: s.manager, Key: s.key,
		Window: publishWindow, Zone: c.zone, Log: s.log, Limits: ingest.Limits{Poll: s.cfg.Poll},
		Leases: s.leases,

		ForeignHosts: hosts, ForeignLimits: foreign.Limits{Bytes: s.cfg.Import.MaxBytes, Entries: int64(s.cfg.Import.MaxEntries)},

		Packs:    split.Packs{Below: s.cfg.Packs.Below, Size: s.cfg.Packs.Size},
		Boundary: s.in(roomIngest),
	})
	if err != nil {
		return err
	}
	s.collector = upkeep.NewCollector(upkeep.CollectorOptions{
		Catalog: c.catalog, Store: c.objects, Claims: s.ingest.Publisher.Claims, Expendable: library.Expendable, Leases: s.leases, Log: s.log,
		Merge: s.cfg.Poll, Every: s.cfg.Collect.Every, Delay: s.cfg.Collect.Delay, Keep: s.cfg.Collect.Keep,
	})
	s.indexer = upkeep.NewIndexer(urlindex.NewBuilder(c.catalog, c.objects, urlindex.Options{Log: s.log}), s.cfg.Poll, s.leases, s.log)
	local, ok := s.cfg.StoreDir()
	if !ok {
		local = "" // the archives lie elsewhere
	}
	disks, err := space.Disks(buffers, local)
	if err != nil {
		return err
	}
	s.receiver, err = receive.New(ctx, receive.Options{
		Disks: disks, Marks: space.Marks{Full: float64(s.cfg.Uploads.Full) / 100, Drained: float64(s.cfg.Uploads.Drained) / 100}, Shared: s.cfg.Database.URL != "",
		Dir: buffers, Batches: s.ingest.Acceptor, Robots: s.manager, Transfers: c.moved, Running: s.running, Guesses: c.guesses, Log: s.log,
		Quiet: s.cfg.Drop.Quiet, CutOff: s.cfg.Drop.CutOff, Least: int64(s.cfg.Uploads.Least),
		Boundary: s.in(roomReceive),
	})
	if err != nil {
		return err
	}
	s.ingest.Register(s.router, c.operator)
	s.collector.Register(s.router, c.operator)
	s.indexer.Register(s.router, c.operator)
	upkeep.NewTakedowns(c.catalog, s.log).Register(s.router, c.operator)
	return s.receiver.Register(s.router)
}

// hostMap reads the setting drop.hosts.
func hostMap(name string) (foreign.HostMap, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("drop.hosts: %w", err)
	}
	defer f.Close()
	m, err := foreign.ParseHostMap(f)
	if err != nil {
		return nil, fmt.Errorf("drop.hosts: %s: %w", name, err)
	}
	return m, nil
}

// buildServe makes what hands out archives.
func (s *Service) buildServe(ctx context.Context, c common, library *serve.Library) (err error) {
	if s.cfg.Access.Offline > 0 {
		s.accounts.Offline(s.cfg.Access.Offline, s.log)
		if err := s.accounts.Learn(ctx); err != nil { // before anybody is told that the node is up
			return fmt.Errorf("read the accounts: %w", err)
		}
	}
	s.recorder = transfers.NewBuffer(c.moved, s.log)
	if err := s.buildWatches(c, library); err != nil {
		return err
	}
	s.jobs = jobs.New(s.db, c.objects, library, s.accounts, s.log)
	err = httpd.Register(s.router, httpd.Options{
		Library: library, Accounts: s.accounts, Recorder: s.recorder, Operator: c.operator, Version: Version(), Public: s.cfg.HTTP.Public, Zone: c.zone, Log: s.log,
		Running: s.running, Measures: s.measures,
		Replay: s.cfg.Replay.Dir, ReplayOrigin: s.cfg.Replay.Origin,
		Stopping: s.stopping, Watches: s.watches, Jobs: s.jobs,
	})
	if err != nil {
		return err
	}
	s.download, err = ftpd.New(ftpd.Options{Library: library, Accounts: s.accounts, Recorder: s.recorder, Running: s.running, Log: s.log})
	return err
}

// work is what the process's roles do besides answering.
func (s *Service) work() (all []func(context.Context) error) {
	if s.cfg.has(roleManager) {
		all = append(all, s.manager.Run)
	}
	if s.cfg.has(roleIngest) {
		all = append(all, s.ingest.Run, s.collector.Run, s.indexer.Run, s.receiver.Run)
	}
	if s.cfg.has(roleServe) {
		watch := func(ctx context.Context) error { return s.accounts.Watch(ctx, s.log) }
		all = append(all, s.accounts.Run, watch, s.meter.Run, s.recorder.Run, s.jobs.Run, s.watches.Run)
	}
	return all
}

// readersLag is how old the newest version may be that readers see, of what other
// processes publish: so a visit does not have to ask a store that is far away.
const readersLag = time.Second
