package upkeep

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive/urlindex"
	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/lease"
	"sheaf/internal/loop"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
)

// Indexer brings the index of records by URL up to date with what is published. Nobody waits for
// it: readers look up what the index does not have yet in the segments.
type Indexer struct {
	builder *urlindex.Builder
	every   time.Duration // between two looks at the catalog
	leases  lease.Locker
	log     *slog.Logger
}

// NewIndexer returns an Indexer that looks at the catalog at the given interval while Run runs.
func NewIndexer(builder *urlindex.Builder, every time.Duration, leases lease.Locker, log *slog.Logger) *Indexer {
	return &Indexer{builder, every, leases, log}
}

// Run follows the catalog until ctx ends, while no other process does. A failure is logged, and the
// work repeated at the next look. Run returns nil.
func (x *Indexer) Run(ctx context.Context) error {
	return hold(ctx, x.leases, leaseIndex, x.every, x.log, func(ctx context.Context) error {
		_ = loop.After(ctx, x.every, x.builder.Update, func(err error) {
			x.log.ErrorContext(ctx, "URL index: the update failed and will be repeated", "err", err)
		})
		return context.Cause(ctx)
	})
}

// Register adds the operators' path to r:
//
//	POST /v1/admin/urls/rebuild   build the index again from the segments, in the background; answers 202
func (x *Indexer) Register(r *mux.Router, gate operators.Gate) {
	r.Handle(api.PathAdminRebuild, gate(operators.Worker, audit.Collect, problem.Handler(x.log, x.serveRebuild))).Methods(http.MethodPost)
}

func (x *Indexer) serveRebuild(w http.ResponseWriter, r *http.Request) error {
	audit.Note(r.Context(), audit.Row{Object: "index of records by URL"})
	if err := x.builder.Reset(r.Context()); err != nil {
		return err
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}
