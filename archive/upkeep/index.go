package upkeep

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/urlindex"
	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/lease"
	"sheaf/internal/loop"
	"sheaf/internal/operators"
	"sheaf/internal/route"
)

// Indexer keeps the URL index up to date with the catalog. Nobody waits for it: readers look in the
// segments for records that the index does not have yet.
type Indexer struct {
	builder *urlindex.Builder
	every   time.Duration // between two looks at the catalog
	leases  lease.Locker
	log     *slog.Logger
}

// NewIndexer returns an Indexer that looks at the catalog at the given interval while Run runs.
func NewIndexer(c *catalog.Catalog, st store.Store, every time.Duration, leases lease.Locker, log *slog.Logger) *Indexer {
	return &Indexer{urlindex.NewBuilder(c, st, urlindex.Options{Log: log}), every, leases, log}
}

// Run follows the catalog until ctx ends, whenever this process has the lease. A failure is logged,
// and the work repeated at the next look. Run returns nil.
func (x *Indexer) Run(ctx context.Context) error {
	return hold(ctx, x.leases, leaseIndex, x.every, x.log, func(ctx context.Context) error {
		_ = loop.After(ctx, x.every, x.builder.Update, func(err error) {
			x.log.ErrorContext(ctx, "URL index: the update failed and will be repeated", "err", err)
		})
		return context.Cause(ctx)
	})
}

// Rebuild is the operators' operation that discards the index. The Indexer then builds it again.
var Rebuild = route.New[route.None, route.None]("POST", api.PathAdminRebuild, operators.Worker, audit.Collect, "Make the URL-level index anew from the segments, in the background").
	Answering(http.StatusAccepted, "Begun; what is asked meanwhile is read out of the segments")

// Register mounts the operators' operation.
func (x *Indexer) Register(r *mux.Router, gate operators.Gate) { x.register(gate.Mount(r, x.log, nil)) }

func (x *Indexer) register(mount route.Mount) { Rebuild.On(mount, route.Done(x.rebuild)) }

func (x *Indexer) rebuild(ctx context.Context, _ route.None) error {
	audit.Note(ctx, audit.Row{Object: "index of records by URL"})
	return x.builder.Reset(ctx)
}
