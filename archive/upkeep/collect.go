package upkeep

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/urlindex"
	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/lease"
	"sheaf/internal/operators"
	"sheaf/internal/route"
)

// CollectorOptions are the dependencies and settings of a Collector. All fields are required,
// except Keep and Expendable.
type CollectorOptions struct {
	Catalog *catalog.Catalog
	Store   store.Store
	// Claims returns a function that reports whether an unfinished batch needs an object.
	Claims func(context.Context) (func(key string) bool, error)
	Merge  time.Duration // between two searches for runs to merge
	Every  time.Duration // between two collections
	Delay  time.Duration // how long an object that nothing needs is kept; at least catalog.MinDelay
	Keep   time.Duration // how long editions are kept; 0: for ever
	// Expendable is catalog.Retention.Expendable.
	Expendable func(ctx context.Context, lines []catalog.SegmentEntry, n int) (expendable []bool, err error)
	Leases     lease.Locker
	Log        *slog.Logger
}

// Collector merges the catalog's runs and deletes objects that nothing needs.
type Collector struct {
	opt CollectorOptions

	mu       sync.Mutex // guards retained
	retained time.Time  // Retained.Before of the last collection without failures
}

// NewCollector returns a Collector. It works on its own only while Run runs.
func NewCollector(opt CollectorOptions) *Collector { return &Collector{opt: opt} }

// firstCollection is the wait between the start and the first collection. So a service that is
// restarted again and again does not collect each time.
const firstCollection = 10 * time.Minute

// Run merges and collects until ctx ends, whenever this process has the lease. A failure is logged,
// and the work repeated at the next turn. Run returns nil.
func (c *Collector) Run(ctx context.Context) error {
	return hold(ctx, c.opt.Leases, leaseMerge, c.opt.Merge, c.opt.Log, c.run)
}

func (c *Collector) run(ctx context.Context) error {
	merge := time.NewTicker(c.opt.Merge)
	defer merge.Stop()
	collect := time.NewTimer(min(firstCollection, c.opt.Every))
	defer collect.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-merge.C:
			if err := c.opt.Catalog.Merge(ctx); err != nil && ctx.Err() == nil {
				c.opt.Log.ErrorContext(ctx, "catalog: merging failed and will be repeated", "err", err)
			}
		case <-collect.C:
			if _, err := c.Collect(ctx, false); err != nil && ctx.Err() == nil {
				c.opt.Log.ErrorContext(ctx, "catalog: collection failed and will be repeated", "err", err)
			}
			collect.Reset(c.opt.Every)
		}
	}
}

// Collect makes one collection, and first waits for a collection by another process. With dryRun it
// changes nothing, does not wait, and reports what it would do.
func (c *Collector) Collect(ctx context.Context, dryRun bool) (r *catalog.Collection, err error) {
	if dryRun {
		return c.collect(ctx, true)
	}
	err = c.opt.Leases.Do(ctx, leaseCollect, func(ctx context.Context, _ int64) error {
		r, err = c.collect(ctx, false)
		return err
	})
	return r, err
}

func (c *Collector) collect(ctx context.Context, dryRun bool) (*catalog.Collection, error) {
	opt := catalog.CollectOptions{
		Delay: c.opt.Delay, Claims: c.opt.Claims, DryRun: dryRun,
		Index: urlindex.NewIndex(c.opt.Store),
	}
	if c.opt.Keep > 0 {
		c.mu.Lock()
		opt.Retention = catalog.Retention{Keep: c.opt.Keep, Expendable: c.opt.Expendable, Since: c.retained}
		c.mu.Unlock()
	}
	r, err := c.opt.Catalog.Collect(ctx, opt)
	if err != nil {
		return nil, err
	}
	if old := r.Retained; old != nil {
		c.opt.Log.InfoContext(ctx, "catalog: let old editions expire", "dry_run", dryRun, "before", old.Before, "hosts", old.Hosts,
			"segments", old.Expired, "bytes", old.Bytes, "failed", old.Failed)
		if !dryRun && len(old.Failed) == 0 {
			c.mu.Lock()
			c.retained = old.Before
			c.mu.Unlock()
		}
	}
	c.opt.Log.InfoContext(ctx, "catalog: collected", "dry_run", dryRun, "condemned", r.Condemned.Objects, "waiting", r.Waiting.Objects,
		"deleted", r.Deleted.Objects, "deleted_bytes", r.Deleted.Bytes)
	return r, nil
}

// CollectRequest is the body of POST /v1/admin/gc.
type CollectRequest struct {
	DryRun bool `json:"dry_run,omitempty" doc:"only say what would be done"`
}

// Collect is the operators' operation that makes one collection now.
var Collect = route.New[CollectRequest, *catalog.Collection]("POST", api.PathAdminCollect, operators.Admin, audit.Collect, "Collect what nothing needs").Optional()

// Register mounts the operators' operation.
func (c *Collector) Register(r *mux.Router, gate operators.Gate) {
	c.register(gate.Mount(r, c.opt.Log, nil))
}

func (c *Collector) register(mount route.Mount) { Collect.On(mount, c.answer) }

func (c *Collector) answer(ctx context.Context, ask CollectRequest) (*catalog.Collection, error) {
	audit.Note(ctx, audit.Row{Object: map[bool]string{false: "objects", true: "objects, as a trial"}[ask.DryRun]})
	return c.Collect(ctx, ask.DryRun)
}
