package accept

import (
	"context"
	"fmt"
	"time"

	"sheaf/ingest/inbox"
	"sheaf/internal/wire"
)

// Receipt returns the unsigned receipt of a batch, or nil if no batch with this ID was accepted.
func (a *Acceptor) Receipt(ctx context.Context, id wire.BatchID) (*wire.Receipt, error) {
	b, err := a.opt.Ledger.Get(ctx, string(id))
	if b == nil || err != nil {
		return nil, err
	}
	return receiptOf(b), nil
}

// ReceiptFor returns the receipt for the bytes with the given digest, even if they were refused
// because of their ID or signature. Without a digest it returns the receipt of the accepted batch,
// or else of the upload that was refused last.
func (a *Acceptor) ReceiptFor(ctx context.Context, id wire.BatchID, sha256 string) (*wire.Receipt, error) {
	b, err := a.opt.Ledger.ByDigest(ctx, id, sha256)
	if b == nil || err != nil {
		return nil, err
	}
	return receiptOf(b), nil
}

// Sign returns the receipt as bytes, signed by the service.
func (a *Acceptor) Sign(ctx context.Context, r *wire.Receipt) ([]byte, error) {
	key, err := a.opt.Key(ctx)
	if err != nil {
		return nil, err
	}
	return r.Sign(key)
}

// Unsplit returns the bytes of accepted batches that are not in the store yet.
func (a *Acceptor) Unsplit(ctx context.Context) (int64, error) {
	n, err := a.opt.Ledger.Unsplit(ctx)
	if err != nil {
		return 0, fmt.Errorf("ledger: %w", err)
	}
	return n, nil
}

func receiptOf(b *inbox.Batch) *wire.Receipt {
	detail := b.Detail
	if b.Decision == inbox.Discarded {
		detail = fmt.Sprintf("discarded by %s at %s: %s", b.DecidedBy, b.DecidedAt.Format(time.RFC3339), b.Detail)
	}
	return &wire.Receipt{
		Batch: b.Batch, SHA256: b.SHA256, State: b.State, Reason: b.Reason, Detail: detail,
		Edition: b.Edition, Version: b.Version, At: b.Entered,
		Inferred: b.Inferred,
	}
}
