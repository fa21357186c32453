// Package serve hands out the archive: a Room puts together what consumers read, and the protocols
// by which they do. In this list, each package knows only those before it:
//
//	account    who may read, what, when and how fast; rules that hide some of it
//	library    what an account sees of the catalog: hosts, their files, what has changed, and
//	           what robots did not collect
//	tree       all files, by path: what FTP and HTTP show
//	records    single records, and the language in which consumers ask for them
//	results    files of what a query has found, such as bundles and tables; jobs that make them; and
//	           makers, which make those of volumes beside publication
//	reading    all of these together
//
// Below records are replay, which makes a stored page readable, and texts, which takes the text out
// of it. Over these packages are watch, which tells consumers of changes, and the protocols, ftpd
// and httpd.
package serve

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/urlindex"
	"sheaf/internal/ftp"
	"sheaf/internal/lease"
	"sheaf/internal/loop"
	"sheaf/internal/mailer"
	"sheaf/internal/operators"
	"sheaf/internal/route"
	"sheaf/internal/stream"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
	"sheaf/serve/account"
	"sheaf/serve/ftpd"
	"sheaf/serve/httpd"
	"sheaf/serve/reading"
	"sheaf/serve/results"
	"sheaf/serve/watch"
)

// StorePrefix begins the keys of the objects that a process with only this room stores: what
// consumers' jobs make.
const StorePrefix = results.JobPrefix

// Options of a Room.
type Options struct {
	*Settings
	DB       *sql.DB
	Store    store.Store // for consumers' reads
	Objects  store.Store // as far as this process may change it
	Leases   lease.Locker
	Door     *operators.Door // its audit log, sessions and limit of guesses are consumers', too
	Site     *webpage.Site
	Public   string        // the service's URL of the settings; may be empty
	Base     string        // the service's URL, for links in mails
	Poll     time.Duration // between two looks for work
	Mails    *mailer.Outbox
	Mail     *mailer.Server           // nil: no mails are sent
	Boundary func(write, when string) // see catalog.Options
	Stopping <-chan struct{}          // closed when the service begins to stop
	Redirect int64                    // size from which on clients fetch whole objects from Store, in bytes; 0: none
	Running  *transfers.Running
	Log      *slog.Logger

	Transfers *transfers.Log
	Count     func(transfers.Recorder) transfers.Recorder // counts what it hands on
}

// Room hands out the archive by HTTP and FTP, and makes files beside publication.
type Room struct {
	Catalog  *catalog.Catalog
	Index    *urlindex.Reader
	Library  *reading.Library
	Accounts *account.Accounts

	// Before Register these are nil.
	Operators *httpd.AccountsHandler // what operators do with accounts
	Watches   *watch.Watches
	Jobs      *results.Jobs

	opt      Options
	buffer   *transfers.Buffer // of transfers that are not in the database yet
	recorder transfers.Recorder
	measures *stream.Follower
}

// readersLag is the greatest age of the catalog version that readers see if other processes
// publish. With 0, each request would have to ask a store that may be far away.
const readersLag = time.Second

// Open opens the catalog and the accounts. The room hands out nothing before Register.
func Open(ctx context.Context, opt Options) (*Room, error) {
	r := &Room{opt: opt, Index: urlindex.NewReader(opt.Objects, urlindex.ReaderOptions{Lag: readersLag})}
	var err error
	if r.Catalog, err = catalog.Open(ctx, opt.Objects, catalog.Options{Location: opt.Site.Zone, Boundary: opt.Boundary}); err != nil {
		return nil, err
	}
	if r.Accounts, err = account.NewAccounts(opt.DB, opt.Access.anonymous(), opt.Door.Store.Cost); err != nil {
		return nil, err
	}
	r.Accounts.Guesses = opt.Door.Limit
	line, err := rates(opt.Access.Rate)
	if err != nil {
		return nil, err
	}
	r.Library, err = reading.New(reading.Options{
		Catalog: r.Catalog, Store: opt.Store, Accounts: r.Accounts, Rules: account.NewRules(opt.DB, opt.Log), URLs: r.Index,
		Meter: account.NewMeter(account.Options{DB: opt.DB, Line: line, Zone: opt.Site.Zone, Log: opt.Log}),
		Grace: opt.Access.Grace, Contact: opt.Access.Contact, Lag: readersLag, Log: opt.Log,
	})
	return r, err
}

// Readers returns the accounts, or nil if r is nil: a process without the room.
func (r *Room) Readers() *account.Accounts {
	if r == nil {
		return nil
	}
	return r.Accounts
}

// Register mounts what consumers ask by HTTP, and what operators do with accounts.
func (r *Room) Register(ctx context.Context, router *mux.Router) (err error) {
	opt, l := &r.opt, r.Library
	if err := r.learn(ctx); err != nil {
		return err
	}
	w := &opt.Watch
	if r.Watches, err = watch.New(watch.Options{
		DB: opt.DB, Records: l.Records, Account: r.Accounts.Find, Base: opt.Base, Limit: w.Limit, Unconfirmed: w.Confirmed, PrivateHooks: w.PrivateWebhooks,
		Zone: opt.Site.Zone, Poll: min(opt.Poll, watch.MaxPoll), Mail: opt.Mail, Log: opt.Log,
	}); err != nil {
		return err
	}
	r.Jobs = results.NewJobs(opt.DB, opt.Objects, l.Records, l.Results, r.Accounts, opt.Log)
	resets := &httpd.Resets{Site: opt.Site, Accounts: r.Accounts, Mails: opt.Mails, Base: opt.Base}
	r.Operators = &httpd.AccountsHandler{Accounts: r.Accounts, Meter: l.Access.Meter, Rules: l.Rules, Resets: resets}
	r.buffer, r.measures = transfers.NewBuffer(opt.Transfers, opt.Log), stream.NewFollower()
	r.recorder = opt.Count(r.buffer)
	options := httpd.Options{
		Library: l, Accounts: r.Accounts, Recorder: r.recorder, Running: opt.Running, Measures: r.measures,
		Watches: r.Watches, Jobs: r.Jobs, Resets: resets, Replay: opt.Replay.Dir, ReplayOrigin: opt.Replay.Origin,
		Gate: opt.Door.Gate, Operator: opt.Door.Session, Audit: opt.Door.Audit, Sessions: opt.Door.Sessions,
		Site: opt.Site, Public: opt.Public, Stopping: opt.Stopping, Log: opt.Log,
	}
	options.Redirect.At, options.Redirect.Store = opt.Redirect, opt.Store
	return httpd.Register(router, options)
}

// Routes returns the operations, for the API description.
func Routes() []*route.Route { return httpd.Routes() }

// Around returns the handler of the whole service, whose other paths next serves: see httpd.Around.
func (s *Settings) Around(next http.Handler) http.Handler {
	return httpd.Around(s.Replay.Origin, next)
}

// learn reads all that a reader needs of the database, if accounts are to log in without it.
func (r *Room) learn(ctx context.Context) error {
	if r.opt.Access.Offline == 0 {
		return nil
	}
	r.Accounts.Offline(r.opt.Access.Offline, r.opt.Door.Slower, r.opt.Log)
	if err := r.Accounts.Learn(ctx); err != nil {
		return fmt.Errorf("read the accounts: %w", err)
	}
	_, err := r.Library.Rules.List(ctx)
	return err
}

// Download returns the handler of the FTP server for consumers. Register must have been called.
func (r *Room) Download() (ftp.Handler, error) {
	return ftpd.New(ftpd.Options{Tree: r.Library.Tree, Contact: r.Library.Contact, Accounts: r.Accounts, Recorder: r.recorder, Running: r.opt.Running, Log: r.opt.Log})
}

// Run does the work beside requests until ctx ends. Register must have been called.
func (r *Room) Run(ctx context.Context) error {
	return loop.Together(ctx, r.Library.Rules.Run, r.Accounts.Run, r.Library.Access.Meter.Run, r.buffer.Run, r.Jobs.Run, r.Watches.Run,
		func(ctx context.Context) error { return r.Library.Rules.Tell(ctx, r.Catalog) },
		func(ctx context.Context) error { return r.Accounts.Watch(ctx, r.opt.Log) })
}

// Settle records the last transfers, after all have ended.
func (r *Room) Settle(ctx context.Context) error {
	r.measures.Close()
	return errors.Join(r.buffer.Flush(ctx), r.Library.Access.Meter.Flush(ctx))
}

// tablesGrace is how long a table is kept after nobody sees it any more.
const tablesGrace = time.Minute

// Make makes the files of days and domains until ctx ends, each kind in one process at a time.
func (r *Room) Make(ctx context.Context) error {
	opt, l := &r.opt, r.Library
	of := func(days int) results.TableOptions {
		return results.TableOptions{Tree: l.Tree, Files: l.Results, Records: l.Records, Store: opt.Objects, Leases: opt.Leases, Days: days, Every: opt.Poll, Grace: tablesGrace, Log: opt.Log}
	}
	latest := results.NewCurrentMaker(results.CurrentOptions{
		Tree: l.Tree, Store: opt.Objects, Leases: opt.Leases, Domains: opt.Volumes.Current, Every: opt.Volumes.Every, Look: opt.Poll, Log: opt.Log,
	})
	return loop.Together(ctx, results.NewTableMaker(of(opt.Tables.Days)).Run, results.NewTextMaker(of(opt.Tables.Texts)).Run, results.NewLinkMaker(of(0)).Run, latest.Run)
}
