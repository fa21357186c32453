package ingest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"sheaf/internal/wire"
)

// recover finishes what a crash has left between the files and the ledger: a
// placed batch without a row is entered, a manifest whose file did not come is
// dropped, a quarantined batch is moved aside, a discarded one deleted.
func (i *Ingest) recover(ctx context.Context) error {
	placed, err := i.tidy(ctx)
	if err != nil {
		return err
	}
	for _, id := range placed {
		if err := i.recoverPlaced(ctx, id); err != nil {
			return fmt.Errorf("batch %s: %w", id, err)
		}
	}
	return nil
}

// tidy puts the directories of batches in order while no other process accepts
// or decides, and gives those that are placed and have no row.
func (i *Ingest) tidy(ctx context.Context) (placed []string, err error) {
	i.accepting.Lock()
	defer i.accepting.Unlock()
	i.deciding.Lock()
	defer i.deciding.Unlock()
	ids, err := i.buffers.placed()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if err := i.buffers.sweep(id); err != nil {
			return nil, err
		}
		b, err := i.ledger.get(ctx, id)
		if err != nil {
			return nil, err
		}
		have, err := size(i.buffers.file(id))
		switch {
		case err != nil:
		case b == nil && (have < 0 || !wire.BatchID(id).Valid()): // the upload still lies with the receiver, or was to be refused
			err = i.buffers.drop(id)
		case b == nil:
			placed = append(placed, id)
		case b.State == wire.StateQuarantined:
			err = i.moveAside(b)
		}
		if err != nil {
			return nil, fmt.Errorf("batch %s: %w", id, err)
		}
	}
	discarded, err := i.ledger.unerased(ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range discarded {
		if err := i.erase(ctx, b); err != nil {
			return nil, err
		}
	}
	return placed, nil
}

func (i *Ingest) recoverPlaced(ctx context.Context, id string) error {
	signed, err := os.ReadFile(i.buffers.manifest(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process has accepted it meanwhile, published and collected it
	}
	if err != nil {
		return err
	}
	up := Upload{Batch: wire.BatchID(id), Robot: Owner(wire.BatchID(id))}
	if m, err := wire.PeekManifest(signed); err == nil && m.Inferred { // only what was inferred here is ever placed as such
		_, _, err := i.take(ctx, up, m, signed)
		return err
	}
	if _, _, err := i.Accept(ctx, up, signed); err != nil {
		i.log.Error("a batch that was being accepted stays where it is; its robot will send the manifest again", "batch", id, "err", err)
	}
	return nil
}

func (i *Ingest) moveAside(b *Batch) error {
	return i.write(writeMoveAside, func() error { return i.buffers.moveAside(b.ID, why{b.Batch, b.Reason, b.Detail}) })
}
