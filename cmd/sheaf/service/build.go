package service

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive/store"
	"sheaf/archive/upkeep"
	"sheaf/cmd/sheaf/service/monitor"
	"sheaf/ingest"
	"sheaf/internal/certs"
	"sheaf/internal/ftp"
	"sheaf/internal/mailer"
	"sheaf/internal/operators"
	"sheaf/internal/peer"
	"sheaf/internal/problem"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
	"sheaf/manager"
	"sheaf/serve"
	"sheaf/serve/httpd/guard"
	"sheaf/ui"
	"sheaf/ui/board"
	"sheaf/ui/login"
	"sheaf/ui/removal"
)

// build makes the rooms of the process's roles and connects them.
func (s *Service) build(ctx context.Context) error {
	b, err := s.builder()
	if err != nil {
		return err
	}
	var room *serve.Room
	if s.cfg.has(roleIngest, roleServe) {
		// When old editions expire, ingest asks the library what current is made of.
		if room, err = b.archive(ctx); err != nil {
			return err
		}
		s.health.watchCatalog(room)
	}
	b.guard = guard.New(room.Readers(), b.door.Gate, b.cfg.HTTP.Public, b.log)
	b.guard.Sessions, b.guard.Audit, b.guard.Operator = b.door.Sessions, b.door.Audit, b.door.Session
	var robots *manager.Manager
	if s.cfg.has(roleManager, roleIngest) {
		// Ingest asks the manager for robots' keys and assignments.
		robots = b.manager()
	}
	if room != nil {
		if err := b.keep(ctx, robots, room); err != nil {
			return err
		}
	}
	var download ftp.Handler
	if s.cfg.has(roleServe) { // first: the router tries the routes in order, and readers ask most often
		if download, err = b.serve(ctx, room); err != nil {
			return err
		}
		s.settle = room.Settle
	}
	if s.cfg.has(roleManager) {
		b.manage(robots)
	}
	if s.cfg.has(roleIngest) {
		if err := b.ingest(ctx, robots, room); err != nil {
			return err
		}
		s.health.watchUploads(b.batches.Receiver.Stopped)
	}
	s.watchMetrics(robots, b.running)
	desk := b.removals(robots, s.sites)
	if err := errors.Join(b.login(room), b.board(robots, room, desk, s.health)); err != nil {
		return err
	}
	s.work = append(b.work, s.serveMetrics)
	return s.open(b, download)
}

// keep makes the keeper, which copies restrictions between the database and the catalog: first
// before the process hands anything out, and then regularly.
func (b *builder) keep(ctx context.Context, robots *manager.Manager, room *serve.Room) error {
	k := &keeper{db: b.state.db, catalog: room.Catalog, robots: robots, log: b.log}
	b.door.Audit.After = k.after
	b.work = append(b.work, k.run)
	return k.sync(ctx)
}

// builder returns a builder with the parts that all roles need.
func (s *Service) builder() (*builder, error) {
	b := &builder{
		cfg: &s.cfg, log: s.log, state: &s.state, at: s.Addresses(), boundary: s.in, stopping: s.stopping,
		transfers: transfers.New(s.state.db), running: new(transfers.Running),
	}
	b.door = &operators.Door{Token: s.state.token, TokenFile: tokenFile, SameOrigin: guard.SameOrigin(s.cfg.HTTP.Public), Slower: s.cfg.Slower, Log: s.log}
	if err := b.door.Open(s.state.db, s.cfg.Login.Settings, s.cfg.HTTP.Public); err != nil {
		return nil, err
	}
	b.work = append(b.work, func(ctx context.Context) error { return b.door.Run(ctx, b.cfg.Audit) })
	b.objects = s.cfg.confined(s.state.objects)
	zone, err := time.LoadLocation(s.cfg.Zone)
	if err != nil {
		return nil, err
	}
	if b.mail, err = s.cfg.Serve.Watch.Mailer(); err != nil {
		return nil, err
	}
	b.mails = mailer.NewOutbox(s.state.db, b.mail, s.log)
	b.work = append(b.work, b.mails.Run)
	b.state.monitor.Add(monitor.Mails(b.mails))
	b.site = &webpage.Site{Name: s.cfg.Serve.Site.Name, NameJapanese: s.cfg.Serve.Site.NameJA, Contact: s.cfg.Serve.Access.Contact, Version: Version(), Zone: zone}
	s.router = mux.NewRouter()
	s.router.NotFoundHandler = problem.Handler(s.log, s.cfg.notFound)
	s.router.MethodNotAllowedHandler = http.HandlerFunc(problem.MethodNotAllowed)
	b.router = s.router
	s.health = newHealth(&s.cfg, &s.state, s.log)
	s.health.register(s.router)
	b.work = append(b.work, s.health.keepLooking)
	if s.certs.all != nil {
		s.health.add(checkCertificates, s.certs.check)
		b.expires = func() time.Time { return certs.First(s.certs.all) }
	}
	for _, source := range s.certs.all {
		b.work = append(b.work, source.Run)
	}
	registerOpenapi(s.router, b.log, routes()...)
	s.router.Use(s.state.monitor.HTTP)
	s.router.NotFoundHandler = s.state.monitor.HTTP(s.router.NotFoundHandler)
	board.RegisterTransfers(s.router, b.door.Gate, b.transfers, b.running, zone, b.log)
	return b, nil
}

// open adds the HTTP and FTP servers of the settings to the service's work: for downloads and for
// robots' batches.
func (s *Service) open(b *builder, download ftp.Handler) error {
	s.work = append(s.work, func(ctx context.Context) error {
		h := s.cfg.Serve.Around(b.site.Errors(s.router))
		return s.cfg.HTTP.serve(ctx, s.listeners[portHTTP], s.certs.web(), strictTransport(s.cfg.TLS.HSTS, h), s.cfg.Stop, s.log)
	})
	counts := make(map[string]*ftp.Counts)
	if l := s.listeners[portDownload]; l != nil {
		c, err := s.cfg.Download.server(l, tlsConfig(s.certs.of["download"]), &s.cfg.Serve, s.cfg.Stop, s.log)
		if err != nil {
			return err
		}
		c.Counts, c.Implicit = new(ftp.Counts), s.listeners[portImplicit]
		counts["download"] = c.Counts
		s.work = append(s.work, func(ctx context.Context) error { return ftp.Run(ctx, c, download) })
	}
	if l := s.listeners[portDrop]; l != nil {
		c, err := s.cfg.Drop.server(l, tlsConfig(s.certs.of["drop"]), min(s.cfg.Stop, uploadStop), s.log)
		if err != nil {
			return err
		}
		c.Counts = new(ftp.Counts)
		counts["drop"] = c.Counts
		s.work = append(s.work, func(ctx context.Context) error { return ftp.Run(ctx, c, b.batches.Receiver.FTP()) })
	}
	s.state.monitor.Add(monitor.FTP(counts))
	return nil
}

// builder makes the rooms of one process.
type builder struct {
	cfg      *Config
	log      *slog.Logger
	state    *state
	at       Addresses
	boundary func(room string) func(write, when string)
	stopping chan struct{}

	router    *mux.Router
	site      *webpage.Site
	objects   store.Store // the object store, as far as this process may change it
	transfers *transfers.Log
	running   *transfers.Running
	door      *operators.Door // knows the operators
	guard     *guard.Guard    // checks requests for web pages

	mail    *mailer.Server // nil: no mails are sent
	mails   *mailer.Outbox
	batches *ingest.Room                  // nil: another process has the buffers
	expires func() time.Time              // when the first certificate expires
	work    []func(context.Context) error // of the rooms made so far
}

// archive opens the room that hands out archives.
func (b *builder) archive(ctx context.Context) (*serve.Room, error) {
	room, err := serve.Open(ctx, serve.Options{
		Settings: &b.cfg.Serve, DB: b.state.db, Store: b.readable(), Objects: b.objects, Leases: b.state.leases, Door: b.door, Site: b.site,
		Public: b.cfg.HTTP.Public, Base: b.base(), Poll: b.cfg.Poll, Mails: b.mails, Mail: b.mail, Boundary: b.boundary("catalog"),
		Stopping: b.stopping, Redirect: b.cfg.HTTP.Redirect.At, Running: b.running, Transfers: b.transfers, Count: b.state.monitor.Transfers, Log: b.log,
	})
	if err == nil {
		b.state.monitor.Add(monitor.Catalog(room.Catalog, room.Index))
	}
	return room, err
}

// readable returns the store for consumers' reads. With a second copy, reads that fail in the store
// go to the copy.
func (b *builder) readable() store.Store {
	if b.cfg.Store.Copy == "" {
		return b.objects
	}
	objects, backed := store.NewBacked(b.objects, b.copied, b.log)
	b.state.monitor.Add(monitor.Backed(backed))
	return objects
}

// copied opens the second copy of the store.
func (b *builder) copied(ctx context.Context) (store.Store, error) {
	return OpenStoreAt(ctx, b.cfg.Store.Copy)
}

// probes is the number of distances that each robot measures after a plan.
const probes = 4

func (b *builder) manager() *manager.Manager {
	drop := b.at.Drop
	if !b.cfg.has(roleIngest) {
		drop = b.cfg.Drop.Listen // the address is another process's
	}
	balance := b.cfg.Manager.Balance
	balance.Zone, balance.Probes, balance.Split = b.site.Zone, probes, true
	at, _ := url.Parse(b.base())
	drop = peer.Announce(drop, at.Hostname())
	return manager.New(b.state.db, manager.Options{
		Key: b.state.keys, Dir: filepath.Join(b.cfg.Data, "manager"), Store: b.objects, FTP: drop,
		Public: strings.TrimRight(b.cfg.HTTP.Public, "/"), Name: b.site.Name, Contact: b.site.Contact,
		Gate: b.door.Gate, Audit: b.door.Audit, Guesses: b.door.Limit, Log: b.log, Now: b.state.clock.Now,
		Policy: b.cfg.Manager.Hosts, Balance: balance, Leases: b.state.leases,
	})
}

// manage mounts the operations and pages for robots, hosts and keys, and adds their work.
func (b *builder) manage(robots *manager.Manager) {
	robots.Register(b.router)
	mount := operators.Gate(b.door.Gate).Mount(b.router, b.log, nil)
	SaveState.Raw(mount, serveBackup(b.state.db, b.cfg, b.log))
	(&keysAPI{b.cfg, b.state, robots, b.log}).register(mount)
	b.door.Register(b.router, b.site.Zone)
	partners := board.NewPartners(board.PartnersOptions{
		Site: b.site, Manager: robots, DB: b.state.db, Transfers: b.transfers, Mails: b.mails, Base: b.base(),
		Notices: b.cfg.Manager.Partners.Notices, Log: b.log,
	})
	partners.Register(b.router, b.guard)
	removal.NewVisits(b.site, robots.Roster).Register(b.router, b.guard)
	b.work = append(b.work, robots.Run, partners.Run)
}

// ingest makes the room that accepts and publishes batches, and looks after what is published.
func (b *builder) ingest(ctx context.Context, robots *manager.Manager, room *serve.Room) (err error) {
	opt := ingest.RoomOptions{Settings: &b.cfg.Ingest, Hosts: b.cfg.Drop.Hosts, Expendable: room.Library.Archive.Expendable, Options: ingest.Options{
		DB: b.state.db, Dir: filepath.Join(b.cfg.Data, "buffers"), Store: b.objects, Catalog: room.Catalog, Robots: robots, Key: b.state.keys, Leases: b.state.leases,
		Zone: b.site.Zone, Limits: ingest.Limits{Poll: b.cfg.Poll}, Stopping: b.stopping, Boundary: b.boundary("ingest"), Log: b.log,
	}}
	if opt.Window, err = b.cfg.Ingest.Window(b.cfg.Zone); err != nil {
		return err
	}
	if dir, ok := b.cfg.StoreDir(); ok {
		opt.LocalStore = dir
	}
	r := &opt.Receive
	r.Shared, r.Robots, r.Refused, r.Guesses = b.cfg.Database.URL != "", robots, robots.Refused, b.door.Limit
	r.Transfers, r.Running, r.Boundary = b.state.monitor.Transfers(b.transfers), b.running, b.boundary("receive")
	r.Quiet, r.CutOff = b.cfg.Drop.Quiet, b.cfg.Drop.CutOff
	if b.batches, err = ingest.Open(ctx, opt); err != nil {
		return err
	}
	b.state.monitor.Add(monitor.Ingest(b.batches.Ingest, opt.Window))
	b.work = append(b.work, b.batches.Run, b.scrubber(room).Run, room.Make)
	return b.batches.Register(b.router, b.door.Gate)
}

// copyEvery is the time between two updates of the second copy.
const copyEvery = time.Hour

// scrubber makes the part that verifies the store and updates its second copy.
func (b *builder) scrubber(room *serve.Room) *upkeep.Scrubber {
	opt := upkeep.ScrubberOptions{
		Catalog: room.Catalog, Store: b.objects, DB: b.state.db, Every: b.cfg.Store.Scrub.Every, Rate: b.cfg.Store.Scrub.Rate,
		Leases: b.state.leases, Log: b.log,
	}
	if b.cfg.Store.Copy != "" {
		opt.Update, opt.Copy = copyEvery, b.copied
	}
	if state := b.scrubState(); state != nil {
		b.state.monitor.Add(monitor.Scrub(opt.Copy != nil, state))
	}
	return upkeep.NewScrubber(opt)
}

// scrubState returns a function that reports the progress of verifying the store, in any process;
// nil if no process does it.
func (b *builder) scrubState() func(context.Context) (upkeep.Scrub, error) {
	if b.cfg.Store.Scrub.Every == 0 && b.cfg.Store.Copy == "" {
		return nil
	}
	return func(ctx context.Context) (upkeep.Scrub, error) { return upkeep.ReadScrub(ctx, b.state.db) }
}

// serve mounts consumers' operations and the pages for people, and returns the handler of the FTP
// server.
func (b *builder) serve(ctx context.Context, room *serve.Room) (ftp.Handler, error) {
	if err := room.Register(ctx, b.router); err != nil {
		return nil, err
	}
	b.state.monitor.Add(monitor.Watches(room.Watches), monitor.Jobs(room.Jobs))
	b.work = append(b.work, room.Run)
	window, err := b.cfg.Ingest.Window(b.cfg.Zone)
	if err != nil {
		return nil, err
	}
	err = ui.Register(b.router, ui.Options{
		Site: b.site, Room: room, Guard: b.guard, About: b.cfg.Serve.Site.About, AboutJapanese: b.cfg.Serve.Site.AboutJA,
		Transfers: b.transfers, Running: b.running, Publish: window, Public: strings.TrimRight(b.cfg.HTTP.Public, "/"), FTP: b.at.Download, Log: b.log,
	})
	if err != nil {
		return nil, err
	}
	return room.Download()
}

// login makes the pages for logging in: for operators in every process, for accounts in processes
// that hand out archives.
func (b *builder) login(room *serve.Room) error {
	opt := login.Options{Site: b.site, Guard: b.guard, Sessions: b.door.Sessions, Operator: b.door.Login, Operators: b.door.Store, Board: board.Path, Log: b.log}
	if b.cfg.has(roleServe) {
		opt.Accounts, opt.Resets = room.Accounts, room.Operators.Resets
	} else {
		webpage.Register(b.router) // otherwise ui has registered it
	}
	var err error
	if opt.OIDC, err = b.cfg.Login.provider(b.base()); err != nil {
		return err
	}
	return login.Register(b.router, opt)
}

// base returns the service's own URL, for links in mails.
func (b *builder) base() string {
	return cmp.Or(strings.TrimSuffix(b.cfg.HTTP.Public, "/"), b.at.HTTP)
}

// removals makes the desk for owners of sites, or returns nil if this process neither takes their
// requests nor decides about them.
func (b *builder) removals(robots *manager.Manager, sites removal.Network) *removal.Desk {
	if !b.cfg.has(roleServe, roleIngest) {
		return nil
	}
	opt := removal.Options{
		DB: b.state.db, Site: b.site, Mails: b.mails, Base: b.base(), Network: sites, Poll: b.cfg.Poll, Log: b.log,
	}
	if b.cfg.has(roleIngest) {
		opt.Takedowns, opt.Hosts = b.batches.Takedowns, robots.Hosts
	}
	desk := removal.New(opt)
	if b.cfg.has(roleServe) {
		desk.Register(b.router, b.guard)
	}
	if desk.Decides() {
		desk.RegisterAdmin(b.router, b.door.Gate)
	}
	b.work = append(b.work, desk.Run)
	b.state.monitor.Add(monitor.Removals(desk))
	return desk
}

// board makes the operators' pages. robots and desk may be nil. Every process trims the log of
// transfers, because it may be the only process.
func (b *builder) board(robots *manager.Manager, room *serve.Room, desk *removal.Desk, h *health) error {
	window, err := b.cfg.Ingest.Window(b.cfg.Zone)
	if err != nil {
		return err
	}
	keep := b.cfg.Transfers
	keep.Zone = b.site.Zone
	b.work = append(b.work, func(ctx context.Context) error {
		return b.transfers.Run(ctx, keep, func(err error) { b.log.ErrorContext(ctx, "transfers: not trimmed", "err", err) })
	})
	if !b.cfg.has(roleManager) {
		robots = nil
	}
	if desk != nil && !desk.Decides() {
		desk = nil
	}
	opt := board.Options{
		Site: b.site, Gate: b.door.Gate, Audit: b.door.Audit, Transfers: b.transfers, Running: b.running, Ingest: b.batches, Manager: robots, Removals: desk,
		Operators: b.door, Where: b.cfg.storeName(), Copy: b.cfg.Store.Copy, Scrub: b.scrubState(),
		Publish: window, Failing: h.failing, Expires: b.expires, Log: b.log, Stopping: b.stopping,
	}
	if room != nil {
		opt.Library, opt.Watches, opt.Accounts = room.Library, room.Watches, room.Operators
	}
	wrong, err := board.Register(b.router, opt)
	b.state.monitor.Add(monitor.Wrong(wrong))
	return err
}
