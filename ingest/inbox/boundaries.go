package inbox

import (
	"log/slog"
	"time"

	"sheaf/archive/store"
	"sheaf/internal/files"
	"sheaf/internal/loop"
)

// Env has the ledger, the files, the log and the clock of all stages.
type Env struct {
	Ledger   *Ledger
	Buffers  Dir
	Objects  store.Store
	InStore  bool // batches are accepted into Objects, not Buffers
	Log      *slog.Logger
	Now      func() time.Time
	Boundary files.Boundary
}

// Write calls f, which makes one durable write, and Boundary before and after f.
func (e *Env) Write(name string, f func() error) error { return e.Boundary.Write(name, f) }

// The durable writes of a batch, in their order.
const (
	BoundaryPlace          = "place"      // the batch file and its manifest under their final names
	BoundaryEnter          = "enter"      // the row: received
	BoundaryClaim          = "claim"      // the row: pre-split, with a new attempt, token and lease; also each extension of the lease
	BoundaryStore          = "stage"      // one object in the store: a host's segment, or a pack of several
	BoundaryStaged         = "staged"     // the catalog entries of some hosts, in the database
	BoundarySplit          = "split"      // the row: post-split
	BoundaryManifest       = "manifest"   // the signed manifest, in the store
	BoundaryPublish        = "publish"    // the catalog's new version
	BoundaryPublished      = "published"  // the rows: published
	BoundaryCollect        = "collect"    // a published batch's files deleted
	BoundaryCollected      = "collected"  // the row: collected, and its staged entries deleted
	BoundaryQuarantine     = "quarantine" // the row: quarantined
	BoundaryMoveAside      = "move-aside" // the batch's folder moved to the quarantine
	BoundaryFailure        = "failure"    // the row: postponed
	BoundaryQuarantineFile = "keep"       // the row of a file without manifest: quarantined; then the file is moved
)

// Boundaries returns the names of the durable writes of a batch, in their order. A fault test kills
// the process before and after each of them.
func Boundaries() []string {
	return []string{
		BoundaryPlace, BoundaryEnter,
		BoundaryClaim, BoundaryStore, BoundaryStaged, BoundarySplit,
		BoundaryManifest, BoundaryPublish, BoundaryPublished,
		BoundaryCollect, BoundaryCollected,
		BoundaryQuarantine, BoundaryMoveAside, BoundaryFailure, BoundaryQuarantineFile,
	}
}

// The durable writes of an operator's decision.
const (
	BoundaryRestore = "restore" // a released batch's folder moved back
	BoundaryRelease = "release" // the row: received
	BoundaryDiscard = "discard" // the row: discarded
	BoundaryErase   = "erase"   // a discarded batch's file deleted
	BoundaryErased  = "erased"  // the row: collected
)

// DecisionBoundaries returns the names of the durable writes of an operator's decision, in their
// order.
func DecisionBoundaries() []string {
	return []string{BoundaryRestore, BoundaryRelease, BoundaryDiscard, BoundaryErase, BoundaryErased}
}

// Bell wakes the loop of a stage.
type Bell chan struct{}

// NewBell returns a bell. It remembers one ring until the loop listens.
func NewBell() Bell { return make(Bell, 1) }

// Ring tells the loop that there is work. It never blocks.
func (b Bell) Ring() { loop.Offer(b, struct{}{}) }
