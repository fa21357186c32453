package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"sheaf/internal/wire"
)

// Refusal is what is wrong with a batch for good: sending the same bytes again
// will not help.
type Refusal struct {
	Reason wire.Reason
	Detail string
}

func (r *Refusal) Error() string { return string(r.Reason) + ": " + r.Detail }

// Incomplete says that a manifest came before the batch was whole.
type Incomplete struct {
	Batch      wire.BatchID
	Have, Want int64 // bytes
}

func (e *Incomplete) Error() string {
	return fmt.Sprintf("batch %s: %d of the manifest's %d bytes are here; send the rest, then the manifest again", e.Batch, e.Have, e.Want)
}

// ErrMalformed says that what came as a manifest is none of the batch it came for.
var ErrMalformed = errors.New("not a manifest of this batch")

// Upload is a batch file as a receiver holds it: durable and no longer written to.
type Upload struct {
	Batch    wire.BatchID
	Robot    string // authenticated, and the batch's owner
	Protocol string // "http" or "ftp"
	Path     string // of the file, on the buffers' file system; empty where none was sent
}

// Owner is the robot whose batch it is by its ID; empty where the ID is not valid.
func Owner(id wire.BatchID) string {
	if !id.Valid() {
		return ""
	}
	name := string(id)
	for range 2 {
		name = name[:strings.LastIndexByte(name, '-')]
	}
	return name
}

// Accept takes a whole batch with its signed manifest over. When it returns a
// receipt, batch and state are durable and the file at up.Path is Accept's; the
// receipt of a batch that was accepted before (fresh is false) says how far it
// has come, and the newcomer at up.Path was not needed. Of a batch that is
// quarantined with ReasonSHAMismatch a newcomer that has the digest is taken in
// its place. Accept may be repeated
// after any error, and two for one batch may run at once: one is fresh.
//
// Errors: ErrMalformed, *Incomplete (send the rest), *Refusal with
// ReasonBadSignature or ReasonIDReuse (a whole newcomer is kept in quarantine
// beside the batch it resembles, never in its place); any other may pass by itself.
func (i *Ingest) Accept(ctx context.Context, up Upload, signed []byte) (receipt *wire.Receipt, fresh bool, err error) {
	key, err := i.opt.Robots.RobotKey(ctx, up.Robot)
	if err != nil {
		return nil, false, fmt.Errorf("key of robot %s: %w", up.Robot, err)
	}
	m, err := wire.OpenManifest(signed, key)
	forged := errors.Is(err, wire.ErrSignature)
	if forged {
		m, err = wire.PeekManifest(signed)
	}
	if err != nil {
		return nil, false, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	if m.Inferred {
		return nil, false, fmt.Errorf("%w: it says inferred, which is the service's to say", ErrMalformed)
	}
	if m.Batch != up.Batch || m.Robot != up.Robot || Owner(m.Batch) != up.Robot {
		return nil, false, fmt.Errorf("%w: it is batch %s of robot %s, want %s of %s", ErrMalformed, m.Batch, m.Robot, up.Batch, up.Robot)
	}

	if forged {
		i.accepting.Lock()
		defer i.accepting.Unlock()
		return nil, false, i.refuse(ctx, up, m, signed, &Refusal{wire.ReasonBadSignature, "offset 0 (" + string(m.Batch) + ".manifest): the manifest is not signed with the key that robot " + up.Robot + " joined with"})
	}
	return i.take(ctx, up, m, signed)
}

// take is Accept from where the manifest is known to be the robot's, or was
// inferred from the batch itself.
func (i *Ingest) take(ctx context.Context, up Upload, m *wire.Manifest, signed []byte) (receipt *wire.Receipt, fresh bool, err error) {
	whole, err := i.whole(ctx, up, m)
	if err != nil {
		return nil, false, err
	}
	i.accepting.Lock()
	defer i.accepting.Unlock()
	old, err := i.ledger.get(ctx, string(m.Batch))
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("ledger: %w", err)
	case old.damaged() && old.SHA256 == m.SHA256 && whole:
		return i.mend(ctx, old, up, m, signed)
	case old != nil && old.SHA256 == m.SHA256:
		return receiptOf(old), false, nil
	case old != nil:
		reuse := &Refusal{wire.ReasonIDReuse, fmt.Sprintf("offset 0 (%s.manifest): the batch was accepted at %s with SHA-256 %s; this one has %s. A new batch needs a new ID",
			m.Batch, old.Received.Format(time.RFC3339), old.SHA256, m.SHA256)}
		if m.Inferred {
			return nil, false, reuse
		}
		return nil, false, i.refuse(ctx, up, m, signed, reuse)
	}
	if up.Path == "" {
		up.Path = i.buffers.file(string(m.Batch)) // perhaps a try before this one has placed it
	}
	b := rowOf(m, up, i.opt.Now())
	if err := i.admit(ctx, b, up.Path, signed); err != nil {
		return nil, false, err
	}
	i.log.Info("batch received", "batch", b.Batch, "robot", b.Robot, "bytes", b.Size, "hosts", b.Hosts, "protocol", b.Protocol)
	i.opt.Observe(Move{Batch: b.Batch, Robot: b.Robot, To: wire.StateReceived, Bytes: b.Size})
	wake(i.splitWake)
	return receiptOf(b), true, nil
}

// admit checks the size and enters a batch: first the files, then the row, which
// alone makes it count.
func (i *Ingest) admit(ctx context.Context, b *Batch, path string, signed []byte) error {
	have, err := size(path)
	if err != nil {
		return err
	}
	if have != b.Size {
		return &Incomplete{b.Batch, max(have, 0), b.Size}
	}
	if err := i.write(writePlace, func() error { return i.buffers.place(b.ID, path, signed) }); err != nil {
		return err
	}
	if err := i.write(writeEnter, func() error { return i.ledger.enter(ctx, b) }); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// refuse keeps a whole newcomer in quarantine under a name of its own, and
// returns the refusal, which stands whatever becomes of the keeping.
func (i *Ingest) refuse(ctx context.Context, up Upload, m *wire.Manifest, signed []byte, r *Refusal) error {
	i.log.Warn("batch refused", "batch", up.Batch, "robot", up.Robot, "reason", r.Reason, "detail", r.Detail)
	if up.Path == "" {
		return r
	}
	i.deciding.Lock()
	defer i.deciding.Unlock()
	b := rowOf(m, up, i.opt.Now())
	b.ID = string(m.Batch) + "+" + wire.Digest(signed)[:12]
	b.State, b.Reason, b.Detail = wire.StateQuarantined, r.Reason, r.Detail
	if old, err := i.ledger.get(ctx, b.ID); err != nil || old != nil {
		return r // one copy is enough
	}
	var cut *Incomplete
	if err := i.admit(ctx, b, up.Path, signed); errors.As(err, &cut) {
		return r
	} else if err != nil {
		i.log.Error("cannot keep a refused batch", "batch", up.Batch, "err", err)
		return r
	}
	if err := i.moveAside(b); err != nil {
		i.log.Error("cannot keep a refused batch", "batch", up.Batch, "err", err)
	}
	i.opt.Observe(Move{Batch: b.Batch, Robot: b.Robot, To: b.State, Reason: b.Reason, Bytes: b.Size})
	return r
}

// maxExpress is the largest batch, in bytes, that is published outside the window: one
// that is to be quick is small.
const maxExpress = 64 << 20

func rowOf(m *wire.Manifest, up Upload, now time.Time) *Batch {
	now = now.UTC().Truncate(time.Millisecond)
	return &Batch{
		ID: string(m.Batch), Batch: m.Batch, Robot: m.Robot, Protocol: up.Protocol,
		SHA256: m.SHA256, Size: m.Size, Hosts: int64(len(m.Hosts)), Inferred: m.Inferred, Express: m.Express && m.Size <= maxExpress,
		State: wire.StateReceived, Received: now, Entered: now,
	}
}

// Receipt tells a robot how far its batch has come; nil where none was accepted.
func (i *Ingest) Receipt(ctx context.Context, id wire.BatchID) (*wire.Receipt, error) {
	b, err := i.ledger.get(ctx, string(id))
	if b == nil || err != nil {
		return nil, err
	}
	return receiptOf(b), nil
}

// ReceiptFor is Receipt for the batch with the given digest: of bytes that were
// refused under a used ID or with a bad signature it tells that too. Without a
// digest it is the accepted batch's, else that of what was refused last.
func (i *Ingest) ReceiptFor(ctx context.Context, id wire.BatchID, sha256 string) (*wire.Receipt, error) {
	b, err := i.ledger.byDigest(ctx, id, sha256)
	if b == nil || err != nil {
		return nil, err
	}
	return receiptOf(b), nil
}

// Sign gives the receipt's bytes, signed by the service.
func (i *Ingest) Sign(r *wire.Receipt) ([]byte, error) { return r.Sign(i.opt.Key) }

func receiptOf(b *Batch) *wire.Receipt {
	detail := b.Detail
	if b.Decision == Discarded {
		detail = fmt.Sprintf("discarded by %s at %s: %s", b.DecidedBy, b.DecidedAt.Format(time.RFC3339), b.Detail)
	}
	return &wire.Receipt{
		Batch: b.Batch, SHA256: b.SHA256, State: b.State, Reason: b.Reason, Detail: detail,
		Edition: b.Edition, Version: b.Version, At: b.Entered,
		Inferred: b.Inferred,
	}
}

// manifest reads what acceptance has checked the signature of.
func (i *Ingest) manifest(b *Batch) (*wire.Manifest, []byte, error) {
	signed, err := os.ReadFile(i.buffers.manifest(b.ID))
	if err != nil {
		return nil, nil, err
	}
	m, err := wire.PeekManifest(signed)
	return m, signed, err
}

// innerOf is the manifest as the copy inside the batch has it.
func innerOf(m *wire.Manifest) ([]byte, error) {
	inner := *m
	inner.Size, inner.SHA256 = 0, ""
	return json.Marshal(inner)
}
