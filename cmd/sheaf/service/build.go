package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/upkeep"
	"sheaf/archive/urlindex"
	"sheaf/cmd/sheaf/service/monitor"
	"sheaf/ingest"
	"sheaf/ingest/foreign"
	"sheaf/ingest/inbox"
	"sheaf/ingest/receive"
	"sheaf/internal/audit"
	"sheaf/internal/certs"
	"sheaf/internal/ftp"
	"sheaf/internal/mailer"
	"sheaf/internal/operators"
	"sheaf/internal/passwords"
	"sheaf/internal/peer"
	"sheaf/internal/problem"
	"sheaf/internal/session"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
	"sheaf/manager"
	"sheaf/serve"
	"sheaf/serve/account"
	"sheaf/serve/httpd"
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
		b.manage(robots, room)
	}
	var drop *receive.Receiver
	if s.cfg.has(roleIngest) {
		if drop, err = b.ingest(ctx, robots, room); err != nil {
			return err
		}
		s.health.watchUploads(drop.Stopped)
	}
	s.watchMetrics(robots, b.transfers.running)
	desk := b.removals(room, robots, s.sites)
	if err := errors.Join(b.login(room), b.board(robots, room, desk, s.health)); err != nil {
		return err
	}
	s.work = append(b.work, s.serveMetrics)
	return s.open(b.site, download, drop)
}

// keep makes the keeper, which copies restrictions between the database and the catalog. The keeper
// does so before the process hands anything out, and then regularly.
func (b *builder) keep(ctx context.Context, robots *manager.Manager, room *serve.Room) error {
	k := &keeper{db: b.state.db, catalog: room.Catalog, robots: robots, log: b.log}
	b.audit.After = k.after
	b.work = append(b.work, k.run)
	return k.sync(ctx)
}

// builder returns a builder with the parts that all roles need.
func (s *Service) builder() (*builder, error) {
	b := &builder{
		cfg: &s.cfg, log: s.log, state: &s.state, at: s.Addresses(), boundary: s.in, stopping: s.stopping,
		transfers: traffic{log: transfers.New(s.state.db), running: new(transfers.Running)}, guesses: passwords.NewLimiter(s.log),
	}
	login := &s.cfg.Login
	b.sessions = session.New(session.Options{DB: s.state.db, Idle: login.Idle, Life: login.Life, Public: s.cfg.HTTP.Public, Slower: s.cfg.Slower})
	if err := b.operators(); err != nil {
		return nil, err
	}
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
	s.router.NotFoundHandler = http.HandlerFunc(s.cfg.notFound)
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
	board.RegisterTransfers(s.router, b.door.Gate, b.transfers.log, b.transfers.running, zone, b.log)
	return b, nil
}

// open adds the HTTP and FTP servers of the settings to the service's work: for downloads and for
// robots' batches.
func (s *Service) open(site *webpage.Site, download ftp.Handler, drop *receive.Receiver) error {
	s.work = append(s.work, func(ctx context.Context) error {
		h := httpd.Around(s.cfg.Serve.Replay.Origin, site.Errors(s.router))
		return s.cfg.HTTP.serve(ctx, s.listeners[portHTTP], s.certs.web(), strictTransport(s.cfg.TLS.HSTS, h), s.cfg.Stop, s.log)
	})
	if l := s.listeners[portDownload]; l != nil {
		c, err := s.cfg.Download.server(l, tlsConfig(s.certs.download), &s.cfg.Serve, s.cfg.Stop, s.log)
		if err != nil {
			return err
		}
		c.Counts, c.Implicit = s.state.monitor.FTP("download"), s.listeners[portImplicit]
		s.work = append(s.work, func(ctx context.Context) error { return ftp.Run(ctx, c, download) })
	}
	if l := s.listeners[portDrop]; l != nil {
		c, err := s.cfg.Drop.server(l, tlsConfig(s.certs.drop), min(s.cfg.Stop, uploadStop), s.log)
		if err != nil {
			return err
		}
		c.Counts = s.state.monitor.FTP("drop")
		s.work = append(s.work, func(ctx context.Context) error { return ftp.Run(ctx, c, drop.FTP()) })
	}
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
	transfers traffic
	guesses   *passwords.Limiter
	sessions  *session.Sessions

	audit *audit.Log
	door  *operators.Door // knows the operators

	mail    *mailer.Server // nil: no mails are sent
	mails   *mailer.Outbox
	batches *ingest.Ingest                // nil: another process has the buffers
	down    *upkeep.Takedowns             // nil: another process takes archives down
	expires func() time.Time              // when the first certificate expires
	disks   []inbox.Disk                  // disks that batches pass through
	work    []func(context.Context) error // of the rooms made so far
}

// traffic has the transfers that have ended, and those under way.
type traffic struct {
	log     *transfers.Log
	running *transfers.Running
}

// archive opens the room that hands out archives.
func (b *builder) archive(ctx context.Context) (*serve.Room, error) {
	room, err := serve.Open(ctx, serve.Options{
		Settings: &b.cfg.Serve, DB: b.state.db, Store: b.readable(), Objects: b.objects, Leases: b.state.leases, Door: b.door, Site: b.site,
		Public: b.cfg.HTTP.Public, Base: b.base(), Poll: b.cfg.Poll, Cost: b.cfg.Login.Passwords, Mails: b.mails, Mail: b.mail, Boundary: b.boundary("catalog"),
		Stopping: b.stopping, Redirect: b.cfg.HTTP.Redirect, Running: b.transfers.running, Transfers: b.transfers.log, Count: b.state.monitor.Transfers, Log: b.log,
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

func (b *builder) manager() *manager.Manager {
	drop := b.at.Drop
	if !b.cfg.has(roleIngest) {
		drop = b.cfg.Drop.Listen // the address is another process's
	}
	at, _ := url.Parse(b.base())
	drop = peer.Announce(drop, at.Hostname())
	return manager.New(b.state.db, manager.Options{
		Key: b.state.keys, Dir: filepath.Join(b.cfg.Data, "manager"), Store: b.objects, FTP: drop,
		Public: strings.TrimRight(b.cfg.HTTP.Public, "/"), Name: b.site.Name, Contact: b.site.Contact,
		Gate: b.door.Gate, Audit: b.audit, Guesses: b.guesses, Log: b.log, Now: b.state.clock.Now,
		Policy:  b.cfg.Manager.Hosts,
		Balance: b.cfg.Manager.Balance.options(b.site.Zone), Leases: b.state.leases,
	})
}

// manage mounts the operations and pages for robots, hosts and keys, and adds their work.
func (b *builder) manage(robots *manager.Manager, room *serve.Room) {
	robots.Register(b.router)
	mount := operators.Gate(b.door.Gate).Mount(b.router, b.log, nil)
	SaveState.Raw(mount, serveBackup(b.state.db, b.cfg, b.log))
	(&keysAPI{b.cfg, b.state, robots, b.log}).register(mount)
	b.door.Register(b.router, b.site.Zone)
	partners := board.NewPartners(board.PartnersOptions{
		Site: b.site, Manager: robots, Batches: inbox.NewLedger(b.state.db), Transfers: b.transfers.log, Mails: b.mails, Base: b.base(),
		Notices: b.cfg.Manager.Partners.Notices, Log: b.log,
	})
	partners.Register(b.router, b.guard(room))
	removal.NewVisits(b.site, robots.Roster).Register(b.router, b.guard(room))
	b.work = append(b.work, robots.Run, partners.Run)
}

// ingest makes the room that accepts and publishes batches, with its upkeep.
func (b *builder) ingest(ctx context.Context, robots *manager.Manager, room *serve.Room) (*receive.Receiver, error) {
	publishWindow, err := b.cfg.publishWindow()
	if err != nil {
		return nil, err
	}
	var directories foreign.HostMap
	if name := b.cfg.Drop.Hosts; name != "" {
		if directories, err = foreign.ReadHostMap(name); err != nil {
			return nil, fmt.Errorf("settings: drop.hosts: %w", err)
		}
	}
	buffers := filepath.Join(b.cfg.Data, "buffers")
	in, err := ingest.New(ctx, ingest.Options{
		DB: b.state.db, Dir: buffers, Store: b.objects, Catalog: room.Catalog, Robots: robots, Key: b.state.keys,
		Window: publishWindow, Zone: b.site.Zone, Log: b.log, Limits: ingest.Limits{Poll: b.cfg.Poll}, Stopping: b.stopping, Leases: b.state.leases,
		ForeignHosts:  directories,
		ForeignLimits: b.cfg.Ingest.Import,
		Packs:         b.cfg.Ingest.Packs,
		InStore:       b.cfg.Ingest.Uploads.Accepted == inStore,
		Boundary:      b.boundary("ingest"),
	})
	if err != nil {
		return nil, err
	}
	local, ok := b.cfg.StoreDir()
	if !ok {
		local = "" // the store is not a local directory
	}
	b.disks, err = inbox.Disks(buffers, local)
	if err != nil {
		return nil, err
	}
	receiver, err := receive.New(ctx, receive.Options{
		Disks: b.disks, Marks: inbox.Marks{Full: float64(b.cfg.Ingest.Uploads.Full) / 100, Drained: float64(b.cfg.Ingest.Uploads.Full-goOnBelow) / 100},
		Shared: b.cfg.Database.URL != "", Dir: buffers, Batches: in.Acceptor, Robots: robots, Refused: robots.Refused,
		Transfers: b.state.monitor.Transfers(b.transfers.log), Running: b.transfers.running, Guesses: b.guesses, Log: b.log,
		Quiet: b.cfg.Drop.Quiet, CutOff: b.cfg.Drop.CutOff, Least: slowUpload,
		Stopping: b.stopping, Boundary: b.boundary("receive"),
	})
	if err != nil {
		return nil, err
	}
	collector := upkeep.NewCollector(upkeep.CollectorOptions{
		Catalog: room.Catalog, Store: b.objects, Claims: in.Publisher.Claims, Expendable: room.Library.Archive.Expendable, Leases: b.state.leases, Log: b.log,
		Merge: b.cfg.Poll, Every: collectEvery, Delay: catalog.MinDelay, Keep: b.cfg.Ingest.Collect.Keep,
	})
	indexer := upkeep.NewIndexer(urlindex.NewBuilder(room.Catalog, b.objects, urlindex.Options{Log: b.log}), b.cfg.Poll, b.state.leases, b.log)
	b.batches = in
	b.state.monitor.Add(monitor.Ingest(in, publishWindow))
	in.Register(b.router, b.door.Gate)
	collector.Register(b.router, b.door.Gate)
	indexer.Register(b.router, b.door.Gate)
	b.down = upkeep.NewTakedowns(room.Catalog, in.Publisher.Recall, b.log)
	b.down.Register(b.router, b.door.Gate)
	b.work = append(b.work, in.Run, collector.Run, indexer.Run, b.scrubber(room).Run, receiver.Run, room.Make)
	return receiver, receiver.Register(b.router)
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

// serve mounts what consumers ask and the pages for people, and returns the handler of the FTP
// server.
func (b *builder) serve(ctx context.Context, room *serve.Room) (ftp.Handler, error) {
	if err := room.Register(ctx, b.router); err != nil {
		return nil, err
	}
	b.state.monitor.Add(monitor.Watches(room.Watches), monitor.Jobs(room.Jobs))
	b.work = append(b.work, room.Run)
	window, err := b.cfg.publishWindow()
	if err != nil {
		return nil, err
	}
	err = ui.Register(b.router, ui.Options{
		Site: b.site, Library: room.Library, Guard: b.guard(room), About: b.cfg.Serve.Site.About, AboutJapanese: b.cfg.Serve.Site.AboutJA, Accounts: room.Accounts,
		Transfers: b.transfers.log, Running: b.transfers.running, Watches: room.Watches, Publish: window, Public: strings.TrimRight(b.cfg.HTTP.Public, "/"), FTP: b.at.Download, Log: b.log,
	})
	if err != nil {
		return nil, err
	}
	return room.Download()
}

// guard makes the part that checks requests for web pages. room may be nil.
func (b *builder) guard(room *serve.Room) *guard.Guard {
	var accounts *account.Accounts
	if room != nil {
		accounts = room.Accounts
	}
	g := guard.New(accounts, b.door.Gate, b.cfg.HTTP.Public, b.log)
	g.Sessions, g.Audit, g.Operator = b.sessions, b.audit, b.door.Session
	return g
}

// login makes the pages for logging in: for operators in every process, for accounts in processes
// that hand out archives.
func (b *builder) login(room *serve.Room) error {
	opt := login.Options{Site: b.site, Guard: b.guard(room), Sessions: b.sessions, Operator: b.door.Login, Operators: b.door.Store, Board: board.Path, Log: b.log}
	if b.cfg.has(roleServe) {
		opt.Accounts, opt.Resets = room.Accounts, room.Operators.Resets
	} else {
		webpage.Register(b.router) // otherwise ui has registered it
	}
	var err error
	if opt.OIDC, err = b.cfg.Login.provider(b.base()); err != nil {
		return err
	}
	b.work = append(b.work, func(ctx context.Context) error {
		return b.sessions.Run(ctx, func(err error) { b.log.ErrorContext(ctx, "sessions: not trimmed", "err", err) })
	})
	return login.Register(b.router, opt)
}

// base returns the service's own URL, for links in mails.
func (b *builder) base() string {
	return cmp.Or(strings.TrimSuffix(b.cfg.HTTP.Public, "/"), b.at.HTTP)
}

// removals makes the desk for owners of sites, or returns nil if this process neither takes their
// requests nor decides about them.
func (b *builder) removals(room *serve.Room, robots *manager.Manager, sites removal.Network) *removal.Desk {
	if !b.cfg.has(roleServe, roleIngest) {
		return nil
	}
	opt := removal.Options{
		DB: b.state.db, Site: b.site, Mails: b.mails, Base: b.base(), Network: sites, Poll: b.cfg.Poll, Log: b.log,
	}
	if b.cfg.has(roleIngest) {
		opt.Takedowns, opt.Hosts = b.down, robots.Hosts
	}
	desk := removal.New(opt)
	if b.cfg.has(roleServe) {
		desk.Register(b.router, b.guard(room))
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
	window, err := b.cfg.publishWindow()
	if err != nil {
		return err
	}
	keep := b.cfg.Transfers
	keep.Zone = b.site.Zone
	b.work = append(b.work, func(ctx context.Context) error {
		return b.transfers.log.Run(ctx, keep, func(err error) { b.log.ErrorContext(ctx, "transfers: not trimmed", "err", err) })
	})
	if !b.cfg.has(roleManager) {
		robots = nil
	}
	if desk != nil && !desk.Decides() {
		desk = nil
	}
	opt := board.Options{
		Site: b.site, Gate: b.door.Gate, Audit: b.audit, Transfers: b.transfers.log, Running: b.transfers.running, Ingest: b.batches, Manager: robots, Removals: desk,
		Operators: b.door, Takedowns: b.down, Disks: b.disks, Where: b.cfg.storeName(), Copy: b.cfg.Store.Copy, Scrub: b.scrubState(),
		Publish: window, Failing: h.failing, Expires: b.expires, Log: b.log, Stopping: b.stopping,
	}
	if room != nil {
		opt.Library, opt.Watches, opt.Accounts = room.Library, room.Watches, room.Operators
	}
	wrong, err := board.Register(b.router, opt)
	b.state.monitor.Add(monitor.Wrong(wrong))
	return err
}
