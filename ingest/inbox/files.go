package inbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/internal/db"
	"sheaf/internal/files"
	"sheaf/internal/loop"
	"sheaf/internal/wire"
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

// The files of a batch lie in the buffers or, if InStore was set when the batch was accepted, in
// the object store, where every process that ingests finds them. Incoming in the batch's row is the
// name of its objects in the store. Objects are never overwritten, so each attempt to store a batch
// has a name of its own. The ledger has the name before it is used. Nothing is moved in the store:
// only the batch's row says whether the batch is in the quarantine.

func fileKey(name string) string { return name + ".tar.gz" }

func manifestKey(name string) string { return name + ".manifest" }

// Place stores the file at path, and the manifest unless signed is nil, as the files of a batch
// that is about to be entered. If they go to the store, it sets b.Incoming; then the caller deletes
// the file at path once the row is durable.
func (e *Env) Place(ctx context.Context, b *Batch, path string, signed []byte) error {
	return e.Write(BoundaryPlace, func() error {
		if !e.InStore {
			return e.Buffers.Place(b.ID, path, signed)
		}
		return e.store(ctx, b, path, signed)
	})
}

// Incomplete says that a manifest came before all bytes of its batch.
type Incomplete struct {
	Batch      wire.BatchID
	Have, Want int64 // bytes
}

func (e *Incomplete) Error() string {
	return fmt.Sprintf("batch %s: %d of the manifest's %d bytes are here; send the rest, then the manifest again", e.Batch, e.Have, e.Want)
}

// Enter checks the size of the file at path and enters a batch: first the files, as Place does,
// then the row. The batch counts only from the row on. If the file does not have the batch's size,
// the error is an *Incomplete.
func (e *Env) Enter(ctx context.Context, b *Batch, path string, signed []byte) error {
	have, err := TreeSize(path)
	if err != nil {
		return err
	}
	if have != b.Size {
		return &Incomplete{b.Batch, max(have, 0), b.Size}
	}
	if err := e.Place(ctx, b, path, signed); err != nil {
		return err
	}
	if err := e.Write(BoundaryEnter, func() error { return e.Ledger.Enter(ctx, b) }); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

func (e *Env) store(ctx context.Context, b *Batch, path string, signed []byte) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	name := catalog.IncomingPrefix + string(b.Batch) + "-" + strings.ToLower(rand.Text())
	if err := e.Ledger.Announce(ctx, name, e.Now()); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	if signed != nil {
		if err := e.Objects.Put(ctx, manifestKey(name), bytes.NewReader(signed), int64(len(signed))); err != nil {
			return fmt.Errorf("store %s: %w", manifestKey(name), err)
		}
	}
	if err := e.Objects.Put(ctx, fileKey(name), f, b.Size); err != nil {
		return fmt.Errorf("store %s: %w", fileKey(name), err)
	}
	b.Incoming = name
	return nil
}

// Manifest reads the manifest of a batch. Its signature was checked when the batch was accepted.
func (e *Env) Manifest(ctx context.Context, b *Batch) (m *wire.Manifest, signed []byte, err error) {
	if b.Incoming == "" {
		return e.Buffers.Manifest(b.ID)
	}
	if signed, err = store.ReadAll(ctx, e.Objects, manifestKey(b.Incoming), 0, -1); err != nil {
		return nil, nil, err
	}
	m, err = wire.PeekManifest(signed)
	return m, signed, err
}

// Open opens the file of a batch that is not in the quarantine. It copies a file in a remote store
// into a temporary file without a name. Closing the temporary file frees it.
func (e *Env) Open(ctx context.Context, b *Batch) (_ *os.File, err error) {
	if b.Incoming == "" {
		return os.Open(e.Buffers.File(b.ID))
	}
	key := fileKey(b.Incoming)
	if local, ok := store.AsLocal(e.Objects); ok {
		return local.OpenFile(key)
	}
	f, err := files.Nameless(e.Buffers.Converting())
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	r, err := e.Objects.Open(ctx, key, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if _, err := io.Copy(f, r); err != nil {
		return nil, fmt.Errorf("fetch %s: %w", key, err)
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, err
}

// MoveAside moves a quarantined batch's files to the quarantine, unless they are in the store. It
// can be repeated.
func (e *Env) MoveAside(b *Batch) error {
	return e.Write(BoundaryMoveAside, func() error {
		if b.Incoming != "" {
			return nil
		}
		return e.Buffers.MoveAside(b.ID, Why{Batch: b.Batch, Reason: b.Reason, Detail: b.Detail})
	})
}

// Restore moves a batch's files back from the quarantine, unless they are in the store. It can be
// repeated.
func (e *Env) Restore(b *Batch) error {
	return e.Write(BoundaryRestore, func() error {
		if b.Incoming != "" {
			return nil
		}
		return e.Buffers.Restore(b.ID)
	})
}

// Erase deletes the file of a batch in the quarantine. Manifest and reason stay.
func (e *Env) Erase(ctx context.Context, b *Batch) error {
	return e.Write(BoundaryErase, func() error {
		if b.Incoming != "" {
			return e.Objects.Delete(ctx, fileKey(b.Incoming))
		}
		return e.Buffers.Erase(b.ID)
	})
}

// Collect deletes the files of a published batch.
func (e *Env) Collect(ctx context.Context, b *Batch) error {
	return e.Write(BoundaryCollect, func() error {
		if b.Incoming != "" {
			return e.remove(ctx, b.Incoming)
		}
		return e.Buffers.Drop(b.ID)
	})
}

func (e *Env) remove(ctx context.Context, name string) error {
	return errors.Join(e.Objects.Delete(ctx, fileKey(name)), e.Objects.Delete(ctx, manifestKey(name)))
}

// unnamed is the age at which announced objects without a batch are deleted: the attempt to store
// them was probably interrupted. An attempt that was only slow fails and is repeated.
const unnamed = 24 * time.Hour

// Sweep deletes the objects of interrupted attempts, and objects that were replaced.
func (e *Env) Sweep(ctx context.Context) error {
	names, err := e.Ledger.Doom(ctx, e.Now().Add(-unnamed))
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := e.remove(ctx, name); err != nil {
			return err
		}
		if err := e.Ledger.Forget(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// The ledger knows every name under which an unpublished batch's objects may lie in the store:
// Batch.Incoming has the names in use, and a table lists the others. A name is listed before its
// objects are stored. When a batch adopts the name, the same transaction strikes it off the list,
// and fails if the name is doomed by then. So a crash leaves no unknown objects, and nothing is
// deleted that a batch may still adopt.

// Announce lists a name whose objects are about to be stored.
func (l *Ledger) Announce(ctx context.Context, name string, now time.Time) error {
	_, err := l.db.ExecContext(ctx, `INSERT INTO ingest_incoming (name, since) VALUES (?, ?)`, name, db.Millis(now))
	return err
}

// adopt strikes a name off the list for the batch that takes it. It returns ErrLost if the name is
// doomed.
func adopt(ctx context.Context, tx *sql.Tx, name string) error {
	if name == "" {
		return nil
	}
	return db.Change(ctx, tx, ErrLost, `DELETE FROM ingest_incoming WHERE name = ? AND doomed = 0`, name)
}

// Doom dooms the names that were announced before the given time and not adopted by a batch. It
// returns all doomed names.
func (l *Ledger) Doom(ctx context.Context, before time.Time) ([]string, error) {
	if _, err := l.db.ExecContext(ctx, `UPDATE ingest_incoming SET doomed = 1 WHERE doomed = 0 AND since < ?`, db.Millis(before)); err != nil {
		return nil, err
	}
	return db.Column[string](ctx, l.db, `SELECT name FROM ingest_incoming WHERE doomed = 1`)
}

// Forget strikes a doomed name off the list, after its objects were deleted.
func (l *Ledger) Forget(ctx context.Context, name string) error {
	_, err := l.db.ExecContext(ctx, `DELETE FROM ingest_incoming WHERE name = ? AND doomed = 1`, name)
	return err
}
