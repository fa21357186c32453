// Package upkeep looks after the published archive. It merges the catalog's runs, deletes objects
// that nothing needs, lets old editions expire, keeps the URL index up to date, and records
// take-downs. It checks the archive, on request (Fsck, Repair) and all the time (Scrubber).
//
// Each of these jobs may run while others publish and read. A lease keeps two processes from doing
// the same job at once. If two processes did the same job, they would do the work twice but no harm
// (see catalog.Collect and urlindex.Builder). So no job passes the lease's token on.
package upkeep

import (
	"context"
	"log/slog"
	"time"

	"sheaf/internal/lease"
	"sheaf/internal/loop"
)

// Names of the leases.
const (
	leaseMerge   = "keeper"  // merging runs, and starting collections
	leaseCollect = "collect" // one collection, scheduled or requested
	leaseIndex   = "urls"    // following the catalog with the URL index
	leaseScrub   = "scrub"   // verifying the store, and keeping its copy
)

// hold does work while this process has the lease, and waits for the lease again when it is lost.
// pause is the time between two attempts. hold returns nil when ctx ends.
func hold(ctx context.Context, leases lease.Locker, name string, pause time.Duration, log *slog.Logger, work func(context.Context) error) error {
	for ctx.Err() == nil {
		err := leases.Do(ctx, name, func(ctx context.Context, _ int64) error { return work(ctx) })
		if ctx.Err() != nil {
			break
		}
		log.WarnContext(ctx, "upkeep: this process no longer has the lease; waiting for it", "lease", name, "err", err)
		loop.Pause(ctx, pause)
	}
	return nil
}
