// Package stage holds what all stages of ingest have: the ledger, the buffers, and the named
// durable writes at which fault tests kill them.
package stage

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"sheaf/archive/store"
	"sheaf/ingest/buffers"
	"sheaf/ingest/ledger"
)

// Env is what every stage works with.
type Env struct {
	Ledger   *ledger.Ledger
	Buffers  buffers.Dir
	Objects  store.Store
	InStore  bool // batches are accepted into Objects, not Buffers
	Log      *slog.Logger
	Now      func() time.Time
	Boundary func(write, when string) // called before and after each durable write
}

// Write performs one durable write between its two boundaries.
func (e *Env) Write(name string, f func() error) error {
	e.Boundary(name, "before")
	err := f()
	e.Boundary(name, "after")
	return err
}

// The durable writes of a batch, in their order.
const (
	Place          = "place"      // the batch file and its manifest under their final names
	Enter          = "enter"      // the row: received
	Claim          = "claim"      // the row: pre-split, with a new attempt, token and lease; then each change of the lease's end
	Store          = "stage"      // one object in the store: a host's segment, or a pack of several
	Staged         = "staged"     // the catalog entries of some hosts, in the database
	Split          = "split"      // the row: post-split
	Manifest       = "manifest"   // the signed manifest, in the store
	Publish        = "publish"    // the catalog's new version
	Published      = "published"  // the rows: published
	Collect        = "collect"    // a published batch's files deleted
	Collected      = "collected"  // the row: collected, and its staged entries deleted
	Quarantine     = "quarantine" // the row: quarantined
	MoveAside      = "move-aside" // the batch's folder moved to the quarantine
	Failure        = "failure"    // the row: postponed
	QuarantineFile = "keep"       // the row of a file without manifest: quarantined; the file is moved afterwards
)

// Boundaries returns the names of the durable writes of a batch, in their order. A fault test has
// to kill the process before and after each.
func Boundaries() []string {
	return []string{
		Place, Enter,
		Claim, Store, Staged, Split,
		Manifest, Publish, Published,
		Collect, Collected,
		Quarantine, MoveAside, Failure, QuarantineFile,
	}
}

// The durable writes of an operator's decision.
const (
	Restore = "restore" // a released batch's folder moved back
	Release = "release" // the row: received
	Discard = "discard" // the row: discarded
	Erase   = "erase"   // a discarded batch's file deleted
	Erased  = "erased"  // the row: collected
)

// DecisionBoundaries is Boundaries for the decisions of operators.
func DecisionBoundaries() []string { return []string{Restore, Release, Discard, Erase, Erased} }

// Bell wakes the loop of a stage.
type Bell chan struct{}

// NewBell returns a bell.
func NewBell() Bell { return make(Bell, 1) }

// Ring tells the loop that there is work. It never blocks.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default: // it has been told already
	}
}

// Backoff is how long to wait after failures that may pass by themselves.
type Backoff struct {
	Min, Max time.Duration // after the first, and after many
}

// After returns the wait after that many failures in a row. It doubles each time, and is random by
// half, so that processes that failed together do not return together.
func (b Backoff) After(failures int) time.Duration {
	wait := b.Max
	if shift := failures - 1; shift < 30 && b.Min<<shift < wait {
		wait = b.Min << shift
	}
	return wait/2 + rand.N(wait/2+1)
}
