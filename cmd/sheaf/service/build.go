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
	"sheaf/ingest/split"
	"sheaf/internal/audit"
	"sheaf/internal/certs"
	"sheaf/internal/ftp"
	"sheaf/internal/mailer"
	"sheaf/internal/operators"
	"sheaf/internal/passwords"
	"sheaf/internal/peer"
	"sheaf/internal/problem"
	"sheaf/internal/session"
	"sheaf/internal/stream"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
	"sheaf/manager"
	"sheaf/serve/account"
	"sheaf/serve/ftpd"
	"sheaf/serve/httpd"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/httpd/web"
	"sheaf/serve/reading"
	"sheaf/serve/results"
	"sheaf/serve/watch"
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
	var published *archives
	if s.cfg.has(roleIngest, roleServe) {
		// When old editions expire, ingest asks the library what current is made of.
		if published, err = b.archives(ctx); err != nil {
			return err
		}
		s.health.watchCatalog(published.catalog, published.library)
	}
	var robots *manager.Manager
	if s.cfg.has(roleManager, roleIngest) {
		// Ingest asks the manager for robots' keys and assignments.
		robots = b.manager()
	}
	if published != nil {
		if err := b.keep(ctx, robots, published); err != nil {
			return err
		}
	}
	var download ftp.Handler
	if s.cfg.has(roleServe) { // first: the router tries the routes in order, and readers ask most often
		if download, s.settle, err = b.serve(ctx, published); err != nil {
			return err
		}
	}
	if s.cfg.has(roleManager) {
		b.manage(robots, published)
	}
	var drop *receive.Receiver
	if s.cfg.has(roleIngest) {
		if drop, err = b.ingest(ctx, robots, published); err != nil {
			return err
		}
		s.health.watchUploads(drop.Stopped)
	}
	s.watchMetrics(robots, b.transfers.running)
	desk := b.removals(published, robots, s.sites)
	if err := errors.Join(b.login(published), b.board(robots, published, desk, s.health)); err != nil {
		return err
	}
	s.work = append(b.work, s.serveMetrics)
	return s.open(b.site, download, drop)
}

// keep makes the keeper, which copies restrictions between the database and the catalog. The keeper
// does so before the process hands anything out, and then regularly.
func (b *builder) keep(ctx context.Context, robots *manager.Manager, a *archives) error {
	k := &keeper{db: b.state.db, catalog: a.catalog, robots: robots, log: b.log}
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
	server, err := s.cfg.Serve.Watch.Mail.mailServer()
	if err != nil {
		return nil, err
	}
	b.mails = mailer.NewOutbox(s.state.db, server, s.log)
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
		h := guard.ByteRanges(web.Only(s.cfg.Serve.Replay.Origin, site.Errors(s.router)))
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

	mails   *mailer.Outbox
	batches *ingest.Ingest                // nil: another process has the buffers
	down    *upkeep.Takedowns             // nil: another process takes archives down
	expires func() time.Time              // when the first certificate expires
	disks   []inbox.Disk                  // disks that batches pass through
	readers *httpd.AccountsHandler        // nil: another process has the accounts
	told    *watch.Watches                // nil: another process tells consumers of changes
	work    []func(context.Context) error // of the rooms made so far
}

// traffic has the transfers that have ended, and those under way.
type traffic struct {
	log     *transfers.Log
	running *transfers.Running
}

// archives has the published archives, and what each account may have of them.
type archives struct {
	catalog  *catalog.Catalog
	accounts *account.Accounts
	meter    *account.Meter
	library  *reading.Library
	objects  store.Store // the store for consumers' reads
}

// readersLag is the greatest age of the catalog version that readers see if other processes
// publish. With 0, each request would have to ask a store that may be far away.
const readersLag = time.Second

func (b *builder) archives(ctx context.Context) (a *archives, err error) {
	a = &archives{objects: b.readable()}
	a.catalog, err = catalog.Open(ctx, b.objects, catalog.Options{Location: b.site.Zone, Boundary: b.boundary("catalog")})
	if err != nil {
		return nil, err
	}
	if a.accounts, err = account.NewAccounts(b.state.db, b.cfg.Serve.Access.account(), b.cfg.Login.Passwords); err != nil {
		return nil, err
	}
	a.accounts.Guesses = b.guesses
	line, err := rates(b.cfg.Serve.Access.Rate)
	if err != nil {
		return nil, err
	}
	a.meter = account.NewMeter(account.Options{DB: b.state.db, Line: line, Zone: b.site.Zone, Log: b.log})
	index := urlindex.NewReader(b.objects, urlindex.ReaderOptions{Lag: readersLag})
	a.library, err = reading.New(reading.Options{
		Catalog: a.catalog, Store: a.objects, Accounts: a.accounts, Meter: a.meter,
		Grace: b.cfg.Serve.Access.Grace, Contact: b.cfg.Serve.Access.Contact, Lag: readersLag,
		URLs: index, Log: b.log, Rules: account.NewRules(b.state.db, b.log),
	})
	b.state.monitor.Add(monitor.Catalog(a.catalog, index))
	return a, err
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
		Policy:  b.cfg.Manager.policy(),
		Balance: b.cfg.Manager.Balance.options(b.site.Zone), Leases: b.state.leases,
	})
}

// manage mounts the operations and pages for robots, hosts and keys, and adds their work.
func (b *builder) manage(robots *manager.Manager, a *archives) {
	robots.Register(b.router)
	mount := operators.Gate(b.door.Gate).Mount(b.router, b.log, nil)
	SaveState.Raw(mount, serveBackup(b.state.db, b.cfg, b.log))
	(&keysAPI{b.cfg, b.state, robots, b.log}).register(mount)
	b.door.Register(b.router, b.site.Zone)
	partners := board.NewPartners(board.PartnersOptions{
		Site: b.site, Manager: robots, Batches: inbox.NewLedger(b.state.db), Transfers: b.transfers.log, Mails: b.mails, Base: b.base(),
		Notices: b.cfg.Manager.Partners.Notices, Log: b.log,
	})
	partners.Register(b.router, b.guard(a))
	removal.NewVisits(b.site, robots.Roster).Register(b.router, b.guard(a))
	b.work = append(b.work, robots.Run, partners.Run)
}

// ingest makes the room that accepts and publishes batches, with its upkeep.
func (b *builder) ingest(ctx context.Context, robots *manager.Manager, a *archives) (*receive.Receiver, error) {
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
		DB: b.state.db, Dir: buffers, Store: b.objects, Catalog: a.catalog, Robots: robots, Key: b.state.keys,
		Window: publishWindow, Zone: b.site.Zone, Log: b.log, Limits: ingest.Limits{Poll: b.cfg.Poll}, Stopping: b.stopping, Leases: b.state.leases,
		ForeignHosts:  directories,
		ForeignLimits: foreign.Limits{Bytes: b.cfg.Ingest.Import.MaxBytes, Entries: int64(b.cfg.Ingest.Import.MaxEntries)},
		Packs:         split.Packs{Below: b.cfg.Ingest.Packs.Below, Size: packSize},
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
		Catalog: a.catalog, Store: b.objects, Claims: in.Publisher.Claims, Expendable: a.library.Archive.Expendable, Leases: b.state.leases, Log: b.log,
		Merge: b.cfg.Poll, Every: collectEvery, Delay: catalog.MinDelay, Keep: b.cfg.Ingest.Collect.Keep,
	})
	indexer := upkeep.NewIndexer(urlindex.NewBuilder(a.catalog, b.objects, urlindex.Options{Log: b.log}), b.cfg.Poll, b.state.leases, b.log)
	b.batches = in
	b.state.monitor.Add(monitor.Ingest(in, publishWindow))
	in.Register(b.router, b.door.Gate)
	collector.Register(b.router, b.door.Gate)
	indexer.Register(b.router, b.door.Gate)
	b.down = upkeep.NewTakedowns(a.catalog, in.Publisher.Recall, b.log)
	b.down.Register(b.router, b.door.Gate)
	b.work = append(b.work, in.Run, collector.Run, indexer.Run, results.NewTableMaker(b.tables(a, b.cfg.Ingest.Tables.Days)).Run, results.NewTextMaker(b.tables(a, b.cfg.Ingest.Tables.Texts)).Run, results.NewLinkMaker(b.tables(a, 0)).Run, b.currentmaker(a).Run, b.scrubber(a).Run, receiver.Run)
	return receiver, receiver.Register(b.router)
}

// tablesGrace is how long a table is kept after nobody sees it any more.
const tablesGrace = time.Minute

func (b *builder) tables(a *archives, days int) results.TableOptions {
	l := a.library
	return results.TableOptions{Tree: l.Tree, Tables: l.Tables, Records: l.Records, Store: b.objects, Leases: b.state.leases, Days: days, Every: b.cfg.Poll, Grace: tablesGrace, Log: b.log}
}

func (b *builder) currentmaker(a *archives) *results.CurrentMaker {
	return results.NewCurrentMaker(results.CurrentOptions{
		Tree: a.library.Tree, Store: b.objects, Leases: b.state.leases, Domains: b.cfg.Ingest.Volumes.Current, Every: b.cfg.Ingest.Volumes.Every, Look: b.cfg.Poll, Log: b.log,
	})
}

// copyEvery is the time between two updates of the second copy.
const copyEvery = time.Hour

// scrubber makes the part that verifies the store and updates its second copy.
func (b *builder) scrubber(a *archives) *upkeep.Scrubber {
	opt := upkeep.ScrubberOptions{
		Catalog: a.catalog, Store: b.objects, DB: b.state.db, Every: b.cfg.Store.Scrub.Every, Rate: b.cfg.Store.Scrub.Rate,
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

// serve makes the room that hands out archives. settle records the last transfers after all
// transfers have ended.
func (b *builder) serve(ctx context.Context, a *archives) (download ftp.Handler, settle func(context.Context) error, err error) {
	if b.cfg.Serve.Access.Offline > 0 {
		a.accounts.Offline(b.cfg.Serve.Access.Offline, b.cfg.Slower, b.log)
		// When the process is ready, it knows all that a reader needs of the database.
		if err := a.accounts.Learn(ctx); err != nil {
			return nil, nil, fmt.Errorf("read the accounts: %w", err)
		}
		if _, err := a.library.Rules.List(ctx); err != nil {
			return nil, nil, err
		}
	}
	watches, err := b.watches(a)
	if err != nil {
		return nil, nil, err
	}
	b.told = watches
	b.readers = &httpd.AccountsHandler{Accounts: a.accounts, Meter: a.meter, Rules: a.library.Rules, Resets: &httpd.Resets{Site: b.site, Accounts: a.accounts, Mails: b.mails, Base: b.base()}}
	buffer, measures := transfers.NewBuffer(b.transfers.log, b.log), stream.NewFollower()
	recorder := b.state.monitor.Transfers(buffer)
	found := results.NewJobs(b.state.db, b.objects, a.library.Records, a.library.Bundles, a.library.Tables, a.accounts, b.log)
	b.state.monitor.Add(monitor.Watches(watches), monitor.Jobs(found))
	err = httpd.Register(b.router, httpd.Options{
		Library: a.library, Accounts: a.accounts, Recorder: recorder, Gate: b.door.Gate, Site: b.site,
		Public: b.cfg.HTTP.Public, Log: b.log, Running: b.transfers.running, Measures: measures,
		Replay: b.cfg.Serve.Replay.Dir, ReplayOrigin: b.cfg.Serve.Replay.Origin,
		Redirect: b.cfg.HTTP.redirect(a.objects),
		Stopping: b.stopping, Watches: watches, Jobs: found, Sessions: b.sessions, Audit: b.audit, Operator: b.door.Session, Resets: b.readers.Resets,
	})
	if err != nil {
		return nil, nil, err
	}
	window, err := b.cfg.publishWindow()
	if err != nil {
		return nil, nil, err
	}
	err = ui.Register(b.router, ui.Options{
		Site: b.site, Library: a.library, Guard: b.guard(a), About: b.cfg.Serve.Site.About, AboutJapanese: b.cfg.Serve.Site.AboutJA, Accounts: a.accounts,
		Transfers: b.transfers.log, Running: b.transfers.running, Watches: watches, Publish: window, Public: strings.TrimRight(b.cfg.HTTP.Public, "/"), FTP: b.at.Download, Log: b.log,
	})
	if err != nil {
		return nil, nil, err
	}
	follow := func(ctx context.Context) error { return a.accounts.Watch(ctx, b.log) }
	tell := func(ctx context.Context) error { return a.library.Rules.Tell(ctx, a.catalog) }
	b.work = append(b.work, a.library.Rules.Run, tell, a.accounts.Run, follow, a.meter.Run, buffer.Run, found.Run, watches.Run)
	settle = func(ctx context.Context) error {
		measures.Close()
		return errors.Join(buffer.Flush(ctx), a.meter.Flush(ctx))
	}
	download, err = ftpd.New(ftpd.Options{Tree: a.library.Tree, Contact: a.library.Contact, Accounts: a.accounts, Recorder: recorder, Running: b.transfers.running, Log: b.log})
	return download, settle, err
}

// guard makes the part that checks requests for web pages. a may be nil.
func (b *builder) guard(a *archives) *guard.Guard {
	var accounts *account.Accounts
	if a != nil {
		accounts = a.accounts
	}
	g := guard.New(accounts, b.door.Gate, b.cfg.HTTP.Public, b.log)
	g.Sessions, g.Audit, g.Operator = b.sessions, b.audit, b.door.Session
	return g
}

// login makes the pages for logging in: for operators in every process, for accounts in processes
// that hand out archives.
func (b *builder) login(a *archives) error {
	opt := login.Options{Site: b.site, Guard: b.guard(a), Sessions: b.sessions, Operator: b.door.Login, Operators: b.door.Store, Board: board.Path, Log: b.log}
	if b.cfg.has(roleServe) {
		opt.Accounts, opt.Resets = a.accounts, b.readers.Resets
	} else {
		webpage.Register(b.router) // otherwise ui has registered it
	}
	var err error
	if opt.OIDC, err = b.cfg.Login.OIDC.provider(b.base()); err != nil {
		return err
	}
	b.work = append(b.work, func(ctx context.Context) error {
		return b.sessions.Run(ctx, func(err error) { b.log.ErrorContext(ctx, "sessions: not trimmed", "err", err) })
	})
	return login.Register(b.router, opt)
}

// watches makes the part that reports changes to consumers.
func (b *builder) watches(a *archives) (*watch.Watches, error) {
	w := &b.cfg.Serve.Watch
	server, err := w.Mail.mailServer()
	if err != nil {
		return nil, err
	}
	return watch.New(watch.Options{
		DB: b.state.db, Records: a.library.Records, Account: a.accounts.Find, Base: b.base(),
		Limit: w.Limit, Unconfirmed: w.Confirmed, PrivateHooks: w.PrivateWebhooks,
		Zone: b.site.Zone, Poll: min(b.cfg.Poll, watch.MaxPoll), Mail: server, Log: b.log,
	})
}

// base returns the service's own URL, for links in mails.
func (b *builder) base() string {
	return cmp.Or(strings.TrimSuffix(b.cfg.HTTP.Public, "/"), b.at.HTTP)
}

// removals makes the desk for owners of sites, or returns nil if this process neither takes their
// requests nor decides about them.
func (b *builder) removals(a *archives, robots *manager.Manager, sites removal.Network) *removal.Desk {
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
		desk.Register(b.router, b.guard(a))
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
func (b *builder) board(robots *manager.Manager, published *archives, desk *removal.Desk, h *health) error {
	window, err := b.cfg.publishWindow()
	if err != nil {
		return err
	}
	b.work = append(b.work, func(ctx context.Context) error {
		return b.transfers.log.Run(ctx, transfers.Keeping{Single: b.cfg.Transfers.Keep, Addresses: b.cfg.Transfers.Addresses, Zone: b.site.Zone}, func(err error) { b.log.ErrorContext(ctx, "transfers: not trimmed", "err", err) })
	})
	if !b.cfg.has(roleManager) {
		robots = nil
	}
	if desk != nil && !desk.Decides() {
		desk = nil
	}
	var library *reading.Library
	if published != nil {
		library = published.library
	}
	wrong, err := board.Register(b.router, board.Options{
		Site: b.site, Gate: b.door.Gate, Audit: b.audit, Transfers: b.transfers.log, Running: b.transfers.running, Ingest: b.batches, Manager: robots,
		Library: library, Watches: b.told, Removals: desk, Accounts: b.readers, Operators: b.door, Takedowns: b.down, Disks: b.disks, Where: b.cfg.storeName(), Copy: b.cfg.Store.Copy, Scrub: b.scrubState(),
		Publish: window, Failing: h.failing, Expires: b.expires, Log: b.log, Stopping: b.stopping,
	})
	b.state.monitor.Add(monitor.Wrong(wrong))
	return err
}
