package board

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive/upkeep"
	"sheaf/ingest"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
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
