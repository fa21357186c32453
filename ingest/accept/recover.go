package accept

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"sheaf/ingest/inbox"
	"sheaf/internal/wire"
)

// Recover finishes what a crash has interrupted. It enters batches with placed files, and deletes
// folders without a batch file.
func (a *Acceptor) Recover(ctx context.Context) error {
	placed, err := a.placed(ctx)
	if err != nil {
		return err
	}
	for _, id := range placed {
		if err := a.recoverBatch(ctx, id); err != nil {
			return fmt.Errorf("batch %s: %w", id, err)
		}
	}
	return nil
}

// placed returns the batches that have files in the buffers but no row. It also deletes folders
// without a batch file, and folders of batches in the store. Meanwhile no batch is accepted.
func (a *Acceptor) placed(ctx context.Context) (placed []string, err error) {
	a.accepting.Lock()
	defer a.accepting.Unlock()
	ids, err := a.opt.Buffers.Placed()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		b, err := a.opt.Ledger.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		if b != nil && b.Incoming == "" {
			continue
		}
		if b != nil { // its files are in the store
			if err := a.opt.Buffers.Drop(id); err != nil {
				return nil, fmt.Errorf("batch %s: %w", id, err)
			}
			continue
		}
		if err := a.opt.Buffers.Sweep(id); err != nil {
			return nil, err
		}
		have, err := inbox.TreeSize(a.opt.Buffers.File(id))
		if err == nil && have >= 0 && wire.BatchID(id).Valid() {
			placed = append(placed, id)
		} else if err == nil { // the receiver still has the upload, or the upload was to be refused
			err = a.opt.Buffers.Drop(id)
		}
		if err != nil {
			return nil, fmt.Errorf("batch %s: %w", id, err)
		}
	}
	return placed, nil
}

func (a *Acceptor) recoverBatch(ctx context.Context, id string) error {
	m, signed, err := a.opt.Buffers.Manifest(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // meanwhile another process has accepted it, and it was published and collected
	}
	if signed == nil {
		return err
	}
	up := Upload{Batch: wire.BatchID(id), Robot: wire.BatchID(id).Robot()}
	if err == nil && m.Inferred { // only the service writes such a manifest
		_, _, err := a.take(ctx, up, m, signed)
		return err
	}
	if _, _, err := a.Accept(ctx, up, signed); err != nil {
		a.opt.Log.ErrorContext(ctx, "a batch that was being accepted stays where it is; its robot will send the manifest again", "batch", id, "err", err)
	}
	return nil
}
