package inbox

import (
	"context"
	"fmt"
	"os"

	"sheaf/internal/files"
	"sheaf/internal/wire"
)

// Quarantine moves batches into the quarantine and out of it. Its methods may be called
// concurrently, also by several processes.
type Quarantine struct {
	env      *Env
	deciding *files.Mutex // held while a batch moves into or out of the quarantine
	received Bell
}

// NewQuarantine returns the quarantine. deciding is the open file of its lock. received is rung for
// each batch that leaves the quarantine.
func NewQuarantine(env *Env, deciding *os.File, received Bell) *Quarantine {
	return &Quarantine{env: env, deciding: files.NewMutex(deciding), received: received}
}

// Recover finishes what a crash has interrupted: it moves the files of quarantined batches aside
// and deletes the files of discarded ones.
func (q *Quarantine) Recover(ctx context.Context) error {
	q.deciding.Lock()
	defer q.deciding.Unlock()
	ids, err := q.env.Buffers.Placed()
	if err != nil {
		return err
	}
	for _, id := range ids {
		b, err := q.env.Ledger.Get(ctx, id)
		if err != nil {
			return err
		}
		if b == nil || b.State != wire.StateQuarantined {
			continue
		}
		err = q.env.Buffers.Sweep(id)
		if err == nil {
			err = q.env.MoveAside(b)
		}
		if err != nil {
			return fmt.Errorf("batch %s: %w", id, err)
		}
	}
	_, err = q.eraseDue(ctx)
	return err
}

// Put quarantines a batch that was being split. The row is changed first, because it stops the
// batch. After a crash Recover repeats the move.
func (q *Quarantine) Put(ctx context.Context, b *Batch, r *Refusal) error {
	q.deciding.Lock()
	defer q.deciding.Unlock()
	if err := q.env.Write(BoundaryQuarantine, func() error { return q.env.Ledger.Quarantine(ctx, b, r.Reason, r.Detail, q.env.Now()) }); err != nil {
		return err
	}
	q.env.Log.WarnContext(ctx, "batch quarantined", "batch", b.Batch, "robot", b.Robot, "reason", r.Reason, "detail", r.Detail)
	b.Reason, b.Detail = r.Reason, r.Detail
	return q.env.MoveAside(b)
}

// PutRefused keeps a refused upload under the row b, with an ID that no batch has. If the row
// exists already, PutRefused does nothing, because one copy is enough. Its errors are those of
// Env.Enter.
func (q *Quarantine) PutRefused(ctx context.Context, b *Batch, path string, signed []byte) error {
	q.deciding.Lock()
	defer q.deciding.Unlock()
	if old, err := q.env.Ledger.Get(ctx, b.ID); err != nil || old != nil {
		return err
	}
	if err := q.env.Enter(ctx, b, path, signed); err != nil {
		return err
	}
	return q.env.MoveAside(b)
}

// PutFile keeps the file at path, which has no manifest, under the row b. Outside the store the row
// is entered first, because nobody would send the file again. The caller keeps the file until
// PutFile has succeeded, and may repeat the call. A file that the quarantine already has is not
// kept twice.
func (q *Quarantine) PutFile(ctx context.Context, b *Batch, path string) error {
	q.deciding.Lock()
	defer q.deciding.Unlock()
	old, err := q.env.Ledger.QuarantinedFile(ctx, b.Robot, b.SHA256)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	if old != nil {
		b = old
	} else {
		if q.env.InStore { // the row must name the stored file
			if err := q.env.Place(ctx, b, path, nil); err != nil {
				return err
			}
		}
		if err := q.env.Write(BoundaryQuarantineFile, func() error { return q.env.Ledger.Enter(ctx, b) }); err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
		q.env.Log.WarnContext(ctx, "a file without manifest is quarantined", "batch", b.ID, "robot", b.Robot, "reason", b.Reason, "detail", b.Detail)
	}
	if b.Incoming != "" { // stored before the row was entered
		return q.env.MoveAside(b)
	}
	if _, err := os.Lstat(q.env.Buffers.Quarantine(b.ID)); b.Decision == Discarded || err == nil {
		return nil
	}
	if err := q.env.Write(BoundaryPlace, func() error { return q.env.Buffers.Place(b.ID, path, nil) }); err != nil {
		return err
	}
	return q.env.MoveAside(b)
}

// Replace puts the file at path in place of the damaged file of a quarantined batch, and makes the
// batch received again. signed is the manifest that came with the file; nil keeps the old manifest.
// The files come first and then the row, and only the row makes the new file count: after a crash
// in between the batch is quarantined as before.
func (q *Quarantine) Replace(ctx context.Context, old *Batch, path string, signed []byte) (*Batch, error) {
	q.deciding.Lock()
	defer q.deciding.Unlock()
	if q.env.InStore {
		return q.replaceStored(ctx, old, path, signed)
	}
	if err := q.env.MoveAside(old); err != nil {
		return nil, err
	}
	if err := q.env.Write(BoundaryPlace, func() error { return q.env.Buffers.Replace(old.ID, path, signed) }); err != nil {
		return nil, err
	}
	return q.receiveAgain(ctx, old)
}

// replaceStored is Replace for files in the store. They get a new name.
func (q *Quarantine) replaceStored(ctx context.Context, old *Batch, path string, signed []byte) (_ *Batch, err error) {
	if signed == nil {
		if _, signed, err = q.env.Manifest(ctx, old); err != nil {
			return nil, err
		}
	}
	b := *old
	if err := q.env.Place(ctx, &b, path, signed); err != nil {
		return nil, err
	}
	return q.receiveAgain(ctx, &b)
}

// receiveAgain makes a quarantined batch received again, and returns its new row.
func (q *Quarantine) receiveAgain(ctx context.Context, b *Batch) (*Batch, error) {
	if err := q.env.Restore(b); err != nil {
		return nil, err
	}
	if err := q.env.Write(BoundaryRelease, func() error { return q.env.Ledger.ReceiveAgain(ctx, b, q.env.Now()) }); err != nil {
		return nil, err
	}
	q.received.Ring()
	return q.env.Ledger.Get(ctx, b.ID)
}
