// Package board has the pages for operators: what is wrong now, the buffers, robots, hosts that
// wait for a decision, levelling, releases, editions and store, watches that fail, transfer rates,
// and who may read what: accounts, access rules, take-downs, collections and operators. The pages
// have forms for an operator's daily work; for other work they name the command. Every number is a
// link to its details, and every list is paged.
//
// # Partners
//
// Partners is for the people at the sites that run robots. A page shows one robot to whoever has
// its signed link:
//
//	/robot/<name>/<link>/<signature>
//
// It changes nothing and shows no other robot. If the robot is silent or stuck, its contact gets
// two mails: when that begins and when it is over.
package board

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive/upkeep"
	"sheaf/ingest"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
	"sheaf/internal/window"
	"sheaf/manager"
	"sheaf/serve/httpd"
	"sheaf/serve/reading"
	"sheaf/serve/watch"
	"sheaf/ui/removal"
)

// Options say what the board shows. Site, Gate, Transfers and Failing are required.
type Options struct {
	Site      *webpage.Site
	Gate      operators.Gate
	Transfers *transfers.Log
	Audit     *audit.Log         // nil: the log has no page
	Running   *transfers.Running // transfers of this process

	Ingest   *ingest.Room     // nil: another process has the buffers
	Manager  *manager.Manager // nil: another process looks after robots
	Library  *reading.Library // nil: another process has the archive
	Watches  *watch.Watches   // nil: another process tells consumers of changes
	Removals *removal.Desk    // nil: another process decides about removals

	Accounts  *httpd.AccountsHandler // nil: another process has the accounts
	Operators *operators.Door        // nil: there is no page of operators

	Where string // place of the object store, for people
	Copy  string // place of its second copy; empty: there is none

	Scrub func(context.Context) (upkeep.Scrub, error) // progress of verifying the store; nil: this process does not verify it

	Expires func() time.Time                // when the servers' first certificate expires; zero: not known; nil: no certificates
	Publish *window.Schedule                // when editions are published; nil: at any time
	Failing func(context.Context) []Failure // present failures of this process
	Log     *slog.Logger

	Stopping <-chan struct{} // closed when the service begins to stop, to end live figures; nil: never
}

// board has the pages' handlers, and what they share.
type board struct {
	Options
	live live
}

// Paths of the board.
const (
	Path          = "/board/" // ends with a slash, so that browsers send operators' credentials to no other path
	pathTransfers = Path + "transfers"
	pathBatches   = Path + "batches"
	pathRobots    = Path + "robots"
	pathHosts     = Path + "hosts"
	pathLevelling = Path + "levelling"
	pathReleases  = Path + "releases"
	pathStore     = Path + "store"
	pathWatches   = Path + "watches"
	pathPublish   = Path + "publish"
	pathLive      = Path + "live"
	pathRemovals  = Path + "removals"
	pathAudit     = Path + "audit"

	pathAccounts    = Path + "accounts"
	pathAccess      = Path + "access"
	pathTakedowns   = Path + "takedowns"
	pathCollections = Path + "collections"
	pathOperators   = Path + "operators"
	pathOwnPassword = Path + "password"
)

// Register mounts the pages. wrong is the method Wrong, which returns the present failures.
func Register(r *mux.Router, opt Options) (wrong func(context.Context) ([]Failure, error), err error) {
	if opt.Site == nil || opt.Gate == nil || opt.Transfers == nil || opt.Failing == nil {
		return nil, errors.New("board: options lack a site, a gate, transfers or checks")
	}
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	b := &board{Options: opt}
	b.live.look, b.live.stopping = b.figures, opt.Stopping
	r.HandleFunc(atBoard.Path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, Path, http.StatusMovedPermanently)
	})
	gate := opt.Gate.Mount(r, opt.Log, nil)
	b.register(func(op *route.Route, h route.Handler) {
		if op.Method == http.MethodGet && op.Path != pathLive {
			h = b.bounded(h)
		}
		gate(op, func(w http.ResponseWriter, r *http.Request) error {
			webpage.KeepMenu(r.Context(), b.page(r).Menu)
			return h(w, r)
		})
	}, false)
	return b.Wrong, nil
}

//go:embed *.html
var pages embed.FS

// parse reads one page's template.
func parse(name string) webpage.Template {
	return webpage.ParseFiles(pages, "common.html", name+".html")
}

// page is the data that all pages of the board share.
type page struct {
	webpage.Page
	Menu                  []webpage.Group
	HasIngest, HasManager bool

	role operators.Role // of the reader
}

// May reports whether the reader has a role, or one that includes it. Pages use it to hide forms
// that the service would refuse.
func (p page) May(least operators.Role) bool { return p.role.Includes(least) }

// Full reports that the board's pages are as wide as the window.
func (page) Full() bool { return true }

// page returns the shared data for the page that an operator requests.
func (b *board) page(r *http.Request) page {
	p := page{Page: b.Site.For(r), HasIngest: b.Ingest != nil, HasManager: b.Manager != nil, role: operators.RoleOf(r.Context())}
	begin := func(name string) { p.Menu = append(p.Menu, webpage.Group{Name: name}) }
	add := func(there bool, name, path string) {
		if there {
			last := &p.Menu[len(p.Menu)-1].Links
			*last = append(*last, webpage.Link{Name: name, Path: path, Here: r.URL.Path == path})
		}
	}
	begin(p.T("Tonight"))
	add(true, p.T("Board"), Path)
	add(b.Ingest != nil, p.T("Batches"), pathBatches)
	add(b.Manager != nil, p.T("Robots"), pathRobots)
	add(b.Manager != nil, p.T("Levelling"), pathLevelling)
	add(true, p.T("Transfer rates"), pathTransfers)
	begin(p.T("Hosts"))
	add(b.Manager != nil, p.T("Hosts"), pathHosts)
	add(b.Removals != nil, p.T("Removals"), pathRemovals)
	add(b.Ingest != nil, p.T("Take-downs"), pathTakedowns)
	add(b.Ingest != nil, p.T("Collections"), pathCollections)
	begin(p.T("Readers"))
	add(b.Accounts != nil, p.T("Accounts"), pathAccounts)
	add(b.Accounts != nil, p.T("Access rules"), pathAccess)
	add(b.Watches != nil, p.T("Watches that fail"), pathWatches)
	begin(p.T("System"))
	add(b.Library != nil, p.T("Editions and store"), pathStore)
	add(b.Manager != nil, p.T("Releases"), pathReleases)
	add(b.Operators != nil, p.T("Operators"), pathOperators)
	add(b.Audit != nil, p.T("Audit log"), pathAudit)
	p.Menu = slices.DeleteFunc(p.Menu, func(g webpage.Group) bool { return len(g.Links) == 0 })
	return p
}

// by returns the name of a request's operator, for records.
func by(r *http.Request) string { return operators.By(r.Context(), "") }

// filled returns a request's query without the empty fields that a form also sends.
func filled(r *http.Request) url.Values {
	q := r.URL.Query()
	maps.DeleteFunc(q, func(_ string, values []string) bool { return values[0] == "" })
	return q
}

// ago returns the time since t, or 0 for the zero time.
func ago(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return time.Since(t)
}

// patience is how long making a page may take. The database takes most of that time.
const patience = 5 * time.Second

// bounded stops a page that takes longer than patience. If a page fails while a part of the service
// does not work, the answer names that part.
func (b *board) bounded(h func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		err := h(w, r.WithContext(ctx))
		if _, ok := errors.AsType[*problem.Error](err); err == nil || ok || r.Context().Err() != nil {
			return err
		}
		var why []string
		if ctx.Err() != nil {
			why = append(why, fmt.Sprintf("the database has not answered for %v", patience))
		}
		for _, f := range b.Failing(r.Context()) {
			why = append(why, f.What+" "+f.Why)
		}
		if why == nil {
			return err
		}
		b.Log.ErrorContext(r.Context(), "a page of the board failed", "path", r.URL.Path, "err", err)
		return problem.New(http.StatusServiceUnavailable, "not_working", strings.Join(why, "; "))
	}
}
