package httpd

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/route"
	"sheaf/internal/session"
	"sheaf/internal/stream"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/httpd/web"
	"sheaf/serve/reading"
	"sheaf/serve/records"
	"sheaf/serve/results"
	"sheaf/serve/watch"
)

// Options of the handlers. Library, Accounts, Recorder and Gate are needed.
type Options struct {
	Library  *reading.Library
	Accounts *account.Accounts
	Recorder transfers.Recorder
	Gate     operators.Gate    // of operators
	Watches  *watch.Watches    // nil: consumers cannot watch
	Audit    *audit.Log        // gets a row for each request that changes something; nil: no rows
	Sessions *session.Sessions // of browsers; nil: they log in by HTTP Basic
	Jobs     *results.Jobs     // takes queries whose answers are too large for one request; nil: no jobs

	// Operator is the field Operator of guard.Guard; may be nil.
	Operator func(*http.Request) (string, error)

	Site     *webpage.Site   // what all pages have in common, and the program's version; default: an archive in UTC
	Stopping <-chan struct{} // closed when the service begins to stop: requests that wait for changes are then answered
	Public   string          // the service's own URL, if it is behind a proxy
	Log      *slog.Logger    // nil: discards

	Resets *Resets // lets operators mail links for new passwords; nil: they do not

	// Replay is the directory with ReplayWeb.page's ui.js and sw.js, and ReplayOrigin where it
	// runs, such as https://replay.example.jp. The service's handler must then go through
	// web.Only. If one of the two is empty ReplayWeb.page is not offered.
	Replay, ReplayOrigin string

	// Budget is what one answer to a query may cost before it ends early, with a cursor. The
	// default is two million records looked at, or 20 seconds.
	Budget records.Budget

	Redirect guard.Redirect     // of large files to the object store
	Running  *transfers.Running // is told of downloads under way; may be nil

	// Measures follows downloads until their last byte is acknowledged, on connections that are
	// stream.Conn; default: a new Follower.
	Measures *stream.Follower
}

const (
	defaultBudgetRecords = 2_000_000
	defaultBudgetTime    = 20 * time.Second
)

// Register mounts the handlers. It fails if Options lack something needed, or Replay lacks a file.
func Register(r *mux.Router, opt Options) error {
	if opt.Library == nil || opt.Accounts == nil || opt.Recorder == nil || opt.Gate == nil {
		return errors.New("httpd: options lack a library, accounts, recorder or gate")
	}
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	opt.Site = cmp.Or(opt.Site, new(webpage.Site))
	if opt.Measures == nil {
		opt.Measures = stream.NewFollower()
	}
	if opt.Budget.Records == 0 && opt.Budget.Time == 0 {
		opt.Budget = records.Budget{Records: defaultBudgetRecords, Time: defaultBudgetTime}
	}
	origin := opt.ReplayOrigin
	if opt.Replay == "" {
		origin = ""
	}
	g := guard.New(opt.Accounts, opt.Gate, opt.Public, opt.Log)
	limits := guard.NewLimits()
	g.Sessions, g.Audit, g.Operator = opt.Sessions, opt.Audit, opt.Operator
	sender := &guard.Sender{Recorder: opt.Recorder, Running: opt.Running, Measures: opt.Measures, Patience: guard.StallTime, Redirect: opt.Redirect, Log: opt.Log}
	// The router tries the routes in this order: those that are asked for most often come first.
	(&web.Pages{Access: opt.Library.Access, Records: opt.Library.Records, Limits: limits, Sender: sender, Public: opt.Public, Site: opt.Site, Player: origin, Log: opt.Log, Watching: opt.Watches != nil}).Register(r, g)
	(&Files{Library: opt.Library, Sender: sender, Log: opt.Log}).Register(r, g)
	(&Queries{Library: opt.Library, Limits: limits, Sender: sender, Budget: opt.Budget, Program: opt.Site.Version,
		Stopping: opt.Stopping, Jobs: opt.Jobs}).Register(r, g)
	(&AccountsHandler{Accounts: opt.Accounts, Meter: opt.Library.Access.Meter, Rules: opt.Library.Rules, Resets: opt.Resets}).Register(r, g)
	if opt.Watches != nil {
		(&WatchesHandler{Watches: opt.Watches, Public: opt.Public, Site: opt.Site}).Register(r, g)
	}
	return web.Register(r, g, opt.Replay, opt.ReplayOrigin, opt.Log)
}

// Around returns the handler of the whole service. At the origin of ReplayWeb.page, next gets only
// requests for the player and for archives.
func Around(replayOrigin string, next http.Handler) http.Handler {
	return guard.ByteRanges(web.Only(replayOrigin, next))
}

// Routes returns the operations, for the API description.
func Routes() []*route.Route {
	h, jobs, watches, accounts := new(Queries), new(jobsHandler), new(WatchesHandler), new(AccountsHandler)
	return slices.Concat([]*route.Route{atTree.Route}, web.Routes(), route.List(new(Files).register), route.List(jobs.register), route.List(accounts.registerRules), route.List(func(mount route.Mount) {
		h.register(mount, mount, mount)
		watches.register(mount, mount)
		accounts.register(mount, mount)
	}))
}
