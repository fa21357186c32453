package inbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/internal/files"
	"sheaf/internal/wire"
)

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
