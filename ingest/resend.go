package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/durable"
	"sheaf/internal/wire"
)

// damaged reports whether the batch was stopped because its bytes are not those
// that its manifest speaks of: the one fault that sending it again can mend.
func (b *Batch) damaged() bool {
	return b != nil && b.State == wire.StateQuarantined && b.Reason == wire.ReasonSHAMismatch && b.Decision != Discarded
}

// whole reports whether up is the file that a damaged batch should have been. It
// reads all of it, so it is asked before any lock is taken, and only then.
func (i *Ingest) whole(ctx context.Context, up Upload, m *wire.Manifest) (bool, error) {
	old, err := i.ledger.get(ctx, string(m.Batch))
	if err != nil {
		return false, fmt.Errorf("ledger: %w", err)
	}
	if !old.damaged() || old.SHA256 != m.SHA256 || up.Path == "" {
		return false, nil
	}
	f, err := os.Open(up.Path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err == nil && n < m.Size {
		err = &Incomplete{m.Batch, n, m.Size}
	}
	return hex.EncodeToString(h.Sum(nil)) == m.SHA256, err
}

// mend puts the whole file that came a second time in the place of the damaged
// one and takes the batch up again. Files first, then the row, which alone makes it
// count: after a crash in between the batch is quarantined as before.
func (i *Ingest) mend(ctx context.Context, old *Batch, up Upload, m *wire.Manifest, signed []byte) (receipt *wire.Receipt, fresh bool, err error) {
	i.deciding.Lock()
	defer i.deciding.Unlock()
	if err := i.moveAside(old); err != nil {
		return nil, false, err
	}
	aside := i.buffers.quarantine(old.ID)
	err = i.write(writePlace, func() error {
		if !m.Inferred || old.Inferred { // a manifest that was signed is better than one that nobody has
			if err := durable.WriteFile(filepath.Join(aside, "manifest"), signed); err != nil {
				return err
			}
		}
		return durable.Rename(up.Path, filepath.Join(aside, "batch.tar.gz"))
	})
	if err != nil {
		return nil, false, err
	}
	if err := i.write(writeRestore, func() error { return i.buffers.restore(old.ID) }); err != nil {
		return nil, false, err
	}
	if err := i.write(writeRelease, func() error { return i.ledger.renew(ctx, old, old.Inferred && m.Inferred, i.opt.Now()) }); err != nil {
		return nil, false, err
	}
	i.log.Info("a batch that had arrived damaged came again", "batch", old.Batch, "robot", old.Robot, "protocol", up.Protocol)
	i.moved(old, wire.StateQuarantined, wire.StateReceived, old.Reason)
	wake(i.splitWake)
	b, err := i.ledger.get(ctx, old.ID)
	if err != nil {
		return nil, false, err
	}
	return receiptOf(b), true, nil
}

// renew moves a damaged batch whose file is whole now back to received.
func (l *ledger) renew(ctx context.Context, b *Batch, inferred bool, now time.Time) error {
	return changed(l.db.ExecContext(ctx, `UPDATE ingest_batches
		SET state = 'received', entered_at = ?, reason = '', detail = '', failures = 0, not_before = 0, last_error = '', inferred = ?
		WHERE id = ? AND token = ? AND state = 'quarantined' AND decision <> 'discarded'`, db.Millis(now), inferred, b.ID, b.token))
}
