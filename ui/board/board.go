// Package board has the pages for operators: what is wrong now, the buffers, robots, hosts that
// wait for a decision, levelling, releases, editions and store, watches that fail, and transfer
// rates. What operators do daily can be done here; for the rest the pages name the command. Every
// number leads to what it is made of, and every list is paged.
package board

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/gorilla/mux"

	"sheaf/ingest"
	"sheaf/ingest/space"
	"sheaf/ingest/upkeep"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
	"sheaf/internal/window"
	"sheaf/manager"
	"sheaf/serve"
	"sheaf/serve/watch"
	"sheaf/ui/removal"
)

// Options say what the board shows. Site, Gate and Transfers are needed.
type Options struct {
	Site      *webpage.Site
	Gate      operators.Gate
	Transfers *transfers.Log
	Audit     *audit.Log         // nil: has no page
	Running   *transfers.Running // transfers of this process

	Ingest   *ingest.Ingest   // nil: another process has the buffers
	Manager  *manager.Manager // nil: another process looks after robots
	Library  *serve.Library   // nil: another process has the archive
	Watches  *watch.Watches   // nil: another process tells consumers of changes
	Removals *removal.Desk    // nil: another process decides about removals
	Disks    []space.Disk     // that batches pass through
	Where    string           // the object store, for people
	Copy     string           // its second copy; empty: there is none

	Scrub func(context.Context) (upkeep.Scrub, error) // how the store is; nil: another process verifies it, or none

	Publish *window.Schedule                // when editions are published; nil: at any time
	Failing func(context.Context) []Failure // what does not work now
	Log     *slog.Logger

	Stopping <-chan struct{} // closed when the service begins to stop: ends live figures; nil: never
}

// Failure is something that is wrong now.
type Failure struct {
	What string
	Why  string
	Path string // of the page that shows more; may be empty
}

// board serves the pages.
type board struct {
	Options
	live live
}

// Paths of the board.
const (
	Path          = "/board/" // with the slash, so that browsers send operators' credentials nowhere else
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
)

// Register mounts the pages.
func Register(r *mux.Router, opt Options) error {
	if opt.Site == nil || opt.Gate == nil || opt.Transfers == nil || opt.Failing == nil {
		return errors.New("board: options lack a site, a gate, transfers or checks")
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	b := &board{Options: opt}
	b.live.look, b.live.stopping = b.figures, opt.Stopping
	handle := func(method, path string, least operators.Role, act audit.Act, h func(http.ResponseWriter, *http.Request) error) {
		if method == http.MethodGet && path != pathLive {
			h = b.bounded(h)
		}
		r.Handle(path, opt.Gate(least, act, problem.Handler(opt.Log, h))).Methods(method)
	}
	r.HandleFunc("/board", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, Path, http.StatusMovedPermanently) })
	handle(http.MethodGet, Path, operators.Viewer, audit.None, b.overview)
	handle(http.MethodGet, pathLive, operators.Viewer, audit.None, b.liveFigures)
	handle(http.MethodGet, Path+`{script:live-[0-9a-f]+\.js}`, operators.Viewer, audit.None, serveScript)
	handle(http.MethodGet, pathTransfers, operators.Viewer, audit.None, b.transfers)
	if b.Audit != nil {
		handle(http.MethodGet, pathAudit, operators.Viewer, audit.None, b.audit)
	}
	if b.Ingest != nil {
		handle(http.MethodGet, pathBatches, operators.Viewer, audit.None, b.batches)
		handle(http.MethodPost, pathBatches, operators.Worker, audit.Decide, b.decideBatch)
		handle(http.MethodGet, pathBatches+"/{batch}", operators.Viewer, audit.None, b.batch)
		handle(http.MethodPost, pathPublish, operators.Worker, audit.Publish, b.publish)
	}
	if b.Removals != nil {
		handle(http.MethodGet, pathRemovals, operators.Viewer, audit.None, b.removals)
		handle(http.MethodPost, pathRemovals, operators.Worker, audit.Decide, b.decideRemoval)
	}
	if b.Manager != nil {
		handle(http.MethodGet, pathRobots, operators.Viewer, audit.None, b.robots)
		handle(http.MethodGet, pathRobots+"/{robot}", operators.Viewer, audit.None, b.robot)
		handle(http.MethodPost, pathRobots+"/{robot}", operators.Worker, audit.Order, b.orderRobot)
		handle(http.MethodGet, pathHosts, operators.Viewer, audit.None, b.hosts)
		handle(http.MethodPost, pathHosts, operators.Worker, audit.Decide, b.decideHosts)
		handle(http.MethodGet, pathLevelling, operators.Viewer, audit.None, b.levelling)
		handle(http.MethodGet, pathReleases, operators.Viewer, audit.None, b.releases)
		handle(http.MethodPost, pathReleases, operators.Worker, audit.Release, b.rollOut)
	}
	if b.Library != nil {
		handle(http.MethodGet, pathStore, operators.Viewer, audit.None, b.store)
	}
	if b.Watches != nil {
		handle(http.MethodGet, pathWatches, operators.Viewer, audit.None, b.watches)
	}
	return nil
}
