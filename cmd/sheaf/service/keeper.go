package service

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive/catalog"
	"sheaf/internal/lease"
	"sheaf/internal/problem"
)

// keeper keeps the catalog in shape while others publish and read: it merges
// runs, collects what nothing needs, and records take-downs.
type keeper struct {
	catalog *catalog.Catalog
	annexes []catalog.Annex
	claims  func(context.Context) (func(key string) bool, error)
	collect Collect
	needs   func(ctx context.Context, lines []catalog.Line, n int) (expendable []bool, err error)
	merge   time.Duration // between two looks for runs to merge
	leases  lease.Locker
	log     *slog.Logger

	mu       sync.Mutex // guards retained
	retained time.Time  // how far retention has come
}

// firstCollection is how long after the start the first collection waits, so that
// a service in trouble, which starts again and again, does not add to its load.
const firstCollection = 10 * time.Minute

// Run merges and collects until ctx ends, while no other process does. What fails is
// logged and done again the next time.
func (k *keeper) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := k.leases.Do(ctx, leaseKeeper, func(ctx context.Context, _ int64) error { return k.run(ctx) })
		if ctx.Err() != nil {
			return nil
		}
		k.log.Warn("catalog: no longer this process's to keep in shape; waiting for a turn", "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(k.merge):
		}
	}
	return nil
}

func (k *keeper) run(ctx context.Context) error {
	merge := time.NewTicker(k.merge)
	defer merge.Stop()
	collect := time.NewTimer(min(firstCollection, k.collect.Every))
	defer collect.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-merge.C:
			if err := k.catalog.Merge(ctx); err != nil && ctx.Err() == nil {
				k.log.Error("catalog: merging failed and will be repeated", "err", err)
			}
		case <-collect.C:
			if _, err := k.Collect(ctx, false); err != nil && ctx.Err() == nil {
				k.log.Error("catalog: collection failed and will be repeated", "err", err)
			}
			collect.Reset(k.collect.Every)
		}
	}
}

// Collect makes one collection, when no other process does. Two at once would do
// the same work twice and no harm: see catalog.Collect. So the lease needs no fence.
func (k *keeper) Collect(ctx context.Context, dryRun bool) (r *catalog.Collection, err error) {
	if dryRun {
		return k.collectOnce(ctx, true)
	}
	err = k.leases.Do(ctx, leaseCollect, func(ctx context.Context, _ int64) error {
		r, err = k.collectOnce(ctx, false)
		return err
	})
	return r, err
}

func (k *keeper) collectOnce(ctx context.Context, dryRun bool) (*catalog.Collection, error) {
	opt := catalog.CollectOptions{Delay: k.collect.Delay, Claims: k.claims, Annexes: k.annexes, DryRun: dryRun}
	if k.collect.Keep > 0 {
		opt.Retention = catalog.Retention{Keep: k.collect.Keep, Expendable: k.needs, Since: k.retainedUntil()}
	}
	r, err := k.catalog.Collect(ctx, opt)
	if err != nil {
		return nil, err
	}
	if r.Retained != nil {
		k.log.Info("catalog: let old editions expire", "dry_run", dryRun, "before", r.Retained.Before, "hosts", r.Retained.Hosts,
			"segments", r.Retained.Expired, "bytes", r.Retained.Bytes, "failed", r.Retained.Failed)
		if !dryRun && len(r.Retained.Failed) == 0 {
			k.mu.Lock()
			k.retained = r.Retained.Before
			k.mu.Unlock()
		}
	}
	k.log.Info("catalog: collected", "dry_run", dryRun, "condemned", r.Condemned.Objects, "waiting", r.Waiting.Objects,
		"deleted", r.Deleted.Objects, "deleted_bytes", r.Deleted.Bytes)
	return r, nil
}

func (k *keeper) retainedUntil() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.retained
}

// Register mounts the operators' paths:
//
//	POST /v1/admin/gc                  {"dry_run"}: collect now
//	GET  /v1/admin/takedowns?host=     what was taken down, lifted and erased
//	POST /v1/admin/takedowns           {"host","edition","url_prefix","reason","by","unknown"}: take down
//	POST /v1/admin/takedowns/lift      the same: lift what was taken down so
func (k *keeper) Register(r *mux.Router, operator func(http.Handler) http.Handler) {
	handle := func(method, path string, f func(http.ResponseWriter, *http.Request) error) {
		r.Handle(path, operator(problem.Handler(k.log, f))).Methods(method)
	}
	handle("POST", "/v1/admin/gc", k.serveCollect)
	handle("GET", "/v1/admin/takedowns", k.serveTakedowns)
	handle("POST", "/v1/admin/takedowns", k.serveTakedown)
	handle("POST", "/v1/admin/takedowns/lift", k.serveLift)
}

func (k *keeper) serveCollect(w http.ResponseWriter, r *http.Request) error {
	var ask struct {
		DryRun bool `json:"dry_run"`
	}
	if err := body(w, r, &ask); err != nil {
		return err
	}
	report, err := k.Collect(r.Context(), ask.DryRun)
	if err != nil {
		return err
	}
	return answer(w, report)
}

// maxAsked is the longest body, in bytes, that an operator's request has.
const maxAsked = 16 << 10

// body decodes a request's body, which may be empty.
func body(w http.ResponseWriter, r *http.Request, v any) error {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAsked)).Decode(v); err != nil && err != io.EOF {
		return problem.New(http.StatusBadRequest, "bad_body", "the body is not the JSON object that this path takes: "+err.Error())
	}
	return nil
}

func answer(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(v)
}
