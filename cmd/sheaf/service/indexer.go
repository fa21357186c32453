package service

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive/urlindex"
	"sheaf/internal/lease"
	"sheaf/internal/problem"
)

// indexer keeps the URL-level index behind what is published. It delays nobody: what the
// index does not cover yet is read out of the segments.
type indexer struct {
	builder *urlindex.Builder
	every   time.Duration // between two looks at the catalog
	leases  lease.Locker
	log     *slog.Logger
}

func newIndexer(c common, every time.Duration, leases lease.Locker, log *slog.Logger) *indexer {
	return &indexer{builder: urlindex.NewBuilder(c.catalog, c.objects, urlindex.Options{Log: log}), every: every, leases: leases, log: log}
}

// Run follows the catalog until ctx ends, while no other process does. What fails is logged
// and done again the next time. Two at once would do the same work twice and no
// harm (see urlindex.Builder), so the lease needs no fence.
func (x *indexer) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := x.leases.Do(ctx, leaseURLs, func(ctx context.Context, _ int64) error { return x.follow(ctx) })
		if ctx.Err() != nil {
			return nil
		}
		x.log.Warn("URL index: no longer this process's to keep; waiting for a turn", "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(x.every):
		}
	}
	return nil
}

func (x *indexer) follow(ctx context.Context) error {
	look := time.NewTicker(x.every)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-look.C:
			if err := x.builder.Update(ctx); err != nil && ctx.Err() == nil {
				x.log.Error("URL index: was not brought up to date, which will be repeated", "err", err)
			}
		}
	}
}

// Register mounts the operators' path:
//
//	POST /v1/admin/urls/rebuild   make the index anew from the segments, in the background
func (x *indexer) Register(r *mux.Router, operator func(http.Handler) http.Handler) {
	r.Handle("/v1/admin/urls/rebuild", operator(problem.Handler(x.log, x.rebuild))).Methods(http.MethodPost)
}

func (x *indexer) rebuild(w http.ResponseWriter, r *http.Request) error {
	if err := x.builder.Reset(r.Context()); err != nil {
		return err
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}
