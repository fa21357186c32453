// Package accept takes batches over from the receivers: it checks the manifest, moves the file into
// the buffers and enters the batch as received. It reads a file without manifest to its end and
// makes a manifest for it. It converts a foreign archive to a batch first.
//
// # Records that are no pages
//
// Keep stores the records of an imported archive that are no pages, such as requests and metadata.
// They lie in the store beside the batch's manifest, as two objects: one has the records, grouped
// by host, and the other says where each host's records are.
package accept

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"sheaf/archive/store"
	"sheaf/ingest/foreign"
	"sheaf/ingest/inbox"
	"sheaf/internal/files"
	"sheaf/internal/stream"
	"sheaf/internal/wire"
)

// Robots answers an Acceptor's questions about robots. Its methods may be called concurrently.
// Their errors may be temporary.
type Robots interface {
	// RobotKey returns the public key that verifies the robot's manifests.
	RobotKey(ctx context.Context, robot string) (ed25519.PublicKey, error)
	// Watched reports whether each of the hosts has a page that consumers watch.
	Watched(ctx context.Context, hosts []string) (bool, error)
	// CurrentGeneration returns the number of the present assignment.
	CurrentGeneration(ctx context.Context) (int64, error)
}

// Options are an Acceptor's settings and the parts that it uses.
type Options struct {
	*inbox.Env
	Quarantine *inbox.Quarantine
	Accepting  []*os.File // each locked while a batch is accepted, chosen by the batch ID
	Received   inbox.Bell
	Robots     Robots
	Key        func(context.Context) (ed25519.PrivateKey, error) // signs receipts
	Limits     inbox.Limits

	// For foreign files:
	Store         store.Store // for the records that are no pages
	ForeignHosts  foreign.HostMap
	ForeignLimits foreign.Limits
}

// Acceptor takes batches over. Its methods may be called concurrently, also by several processes.
type Acceptor struct {
	opt       Options
	accepting files.Mutexes // by batch ID; held while a batch is placed and entered, so that two uploads of one batch come one after the other
}

// New returns an Acceptor. Call Recover at the start.
func New(opt Options) *Acceptor {
	return &Acceptor{opt: opt, accepting: files.NewMutexes(opt.Accepting)}
}

// ErrMalformed says that a manifest cannot be read, belongs to another batch, or calls itself
// inferred.
var ErrMalformed = errors.New("not a manifest of this batch")

// Upload is a received batch file. The file is durable, and nobody writes it any more.
type Upload struct {
	Batch    wire.BatchID
	Robot    string // the authenticated robot, which owns the batch
	Protocol string // "http" or "ftp"
	Path     string // path of the file, on the buffers' file system; empty if none was sent
}

// Accept takes over a whole batch with its signed manifest. When it returns a receipt, the batch
// and its state are durable, and the caller must not use the file at up.Path any more. If the batch
// was accepted before, fresh is false, the receipt gives its present state, and the file is not
// used. There is one exception: if that batch is quarantined with ReasonSHAMismatch, a file with
// the right digest replaces the old one, and fresh is true.
//
// Accept may be repeated after any error, and called for one batch twice at the same time: one of
// the calls returns fresh.
//
// Errors: ErrMalformed; *inbox.Incomplete (send the rest); *inbox.Refusal with ReasonBadSignature
// or ReasonIDReuse (a whole file is kept in the quarantine beside the batch, never in its place).
// Any other error may be temporary.
func (a *Acceptor) Accept(ctx context.Context, up Upload, signed []byte) (receipt *wire.Receipt, fresh bool, err error) {
	key, err := a.opt.Robots.RobotKey(ctx, up.Robot)
	if err != nil {
		return nil, false, fmt.Errorf("key of robot %s: %w", up.Robot, err)
	}
	m, err := wire.OpenManifest(signed, key)
	forged := errors.Is(err, wire.ErrSignature)
	if forged && len(signed) > maxPeek {
		return nil, false, notSigned(up.Batch, up.Robot)
	}
	if forged {
		m, err = wire.PeekManifest(signed)
	}
	if err != nil {
		return nil, false, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	if m.Inferred {
		return nil, false, fmt.Errorf("%w: it says inferred, which only the service may say", ErrMalformed)
	}
	if m.Batch != up.Batch || m.Robot != up.Robot || m.Batch.Robot() != up.Robot {
		return nil, false, fmt.Errorf("%w: it is batch %s of robot %s, want %s of %s", ErrMalformed, m.Batch, m.Robot, up.Batch, up.Robot)
	}
	if forged {
		if !a.opt.InStore {
			mutex := a.accepting.Of(string(m.Batch))
			mutex.Lock()
			defer mutex.Unlock()
		}
		return nil, false, a.refuse(ctx, up, m, signed, notSigned(m.Batch, up.Robot))
	}
	return a.take(ctx, up, m, signed)
}

// maxPeek is the size, in bytes, up to which a manifest with a wrong signature is read, so that its
// batch can be quarantined. With a larger manifest the batch is not kept.
const maxPeek = 1 << 20

func notSigned(id wire.BatchID, robot string) *inbox.Refusal {
	return &inbox.Refusal{Reason: wire.ReasonBadSignature, Detail: "offset 0 (" + string(id) + ".manifest): the manifest is not signed with the key that robot " + robot + " joined with"}
}

// take is Accept for a manifest whose signature was checked, or that was inferred from the batch.
func (a *Acceptor) take(ctx context.Context, up Upload, m *wire.Manifest, signed []byte) (receipt *wire.Receipt, fresh bool, err error) {
	if a.opt.InStore { // the robot may give up while the batch goes to the store; when it asks again, the batch should be accepted
		ctx = context.WithoutCancel(ctx)
	}
	receipt, fresh, err = a.takeHere(ctx, up, m, signed)
	if err != nil && a.opt.InStore { // another call, in any process, may have been quicker
		b, gerr := a.opt.Ledger.Get(ctx, string(m.Batch))
		if gerr == nil && b != nil && b.SHA256 == m.SHA256 && b.State != wire.StateQuarantined {
			return receiptOf(b), false, nil
		}
	}
	return receipt, fresh, err
}

// takeHere is take, but with InStore it may fail if another call takes the same batch.
func (a *Acceptor) takeHere(ctx context.Context, up Upload, m *wire.Manifest, signed []byte) (receipt *wire.Receipt, fresh bool, err error) {
	if have, err := inbox.TreeSize(up.Path); err == nil && have < 0 {
		up.Path = "" // an interrupted attempt has moved it
	}
	replaces, err := a.replaces(ctx, up, m)
	if err != nil {
		return nil, false, err
	}
	if !a.opt.InStore { // without the lock in the store: storing takes long, and only one call can enter the row
		mutex := a.accepting.Of(string(m.Batch))
		mutex.Lock()
		defer mutex.Unlock()
	}
	old, err := a.opt.Ledger.Get(ctx, string(m.Batch))
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("ledger: %w", err)
	case replaces && damaged(old, m):
		return a.replace(ctx, old, up, m, signed)
	case old != nil && old.SHA256 == m.SHA256:
		return receiptOf(old), false, nil
	case old != nil:
		reuse := &inbox.Refusal{Reason: wire.ReasonIDReuse, Detail: fmt.Sprintf("offset 0 (%s.manifest): the batch was accepted at %s with SHA-256 %s; this one has %s. A new batch needs a new ID",
			m.Batch, old.Received.Format(time.RFC3339), old.SHA256, m.SHA256)}
		if m.Inferred {
			return nil, false, reuse
		}
		return nil, false, a.refuse(ctx, up, m, signed, reuse)
	}
	up.Path = cmp.Or(up.Path, a.opt.Buffers.File(string(m.Batch))) // an earlier attempt may have placed it
	b := a.row(m, up)
	if b.Express, err = a.express(ctx, m); err != nil {
		return nil, false, err
	}
	if err := a.opt.Enter(ctx, b, up.Path, signed); err != nil {
		return nil, false, err
	}
	a.opt.Log.InfoContext(ctx, "batch received", "batch", b.Batch, "robot", b.Robot, "bytes", b.Size, "hosts", b.Hosts, "protocol", b.Protocol)
	a.opt.Received.Ring()
	return receiptOf(b), true, nil
}

// refuse keeps a whole upload in the quarantine, and returns the refusal r. If the upload cannot be
// kept, that is only logged.
func (a *Acceptor) refuse(ctx context.Context, up Upload, m *wire.Manifest, signed []byte, r *inbox.Refusal) error {
	a.opt.Log.WarnContext(ctx, "batch refused", "batch", up.Batch, "robot", up.Robot, "reason", r.Reason, "detail", r.Detail)
	if up.Path == "" {
		return r
	}
	b := a.refused(m, up, wire.Digest(signed), r)
	err := a.opt.Quarantine.PutRefused(ctx, b, up.Path, signed)
	if _, ok := errors.AsType[*inbox.Incomplete](err); err != nil && !ok {
		a.opt.Log.ErrorContext(ctx, "cannot keep a refused batch", "batch", up.Batch, "err", err)
	}
	return r
}

// maxExpress is the largest size, in bytes, of an express batch.
const maxExpress = 64 << 20

// express reports whether a batch may be published outside the window: its manifest says express,
// the batch is small and has hosts, and consumers watch each host. Otherwise it is an ordinary
// batch.
func (a *Acceptor) express(ctx context.Context, m *wire.Manifest) (bool, error) {
	if !m.Express || m.Size > maxExpress || len(m.Hosts) == 0 {
		return false, nil
	}
	hosts := make([]string, len(m.Hosts))
	for n, h := range m.Hosts {
		hosts[n] = h.Name
	}
	watched, err := a.opt.Robots.Watched(ctx, hosts)
	if err != nil {
		return false, fmt.Errorf("watches of the hosts of batch %s: %w", m.Batch, err)
	}
	return watched, nil
}

// row returns the ledger's row for a new batch.
func (a *Acceptor) row(m *wire.Manifest, up Upload) *inbox.Batch {
	now := a.opt.Now().UTC().Truncate(time.Millisecond)
	return &inbox.Batch{
		ID: string(m.Batch), Batch: m.Batch, Robot: m.Robot, Protocol: up.Protocol,
		SHA256: m.SHA256, Size: m.Size, Hosts: int64(len(m.Hosts)), Inferred: m.Inferred,
		State: wire.StateReceived, Received: now, Entered: now,
	}
}

// refused returns the ledger's row for an upload that goes to the quarantine. The row's ID is the
// batch's with a suffix from digest.
func (a *Acceptor) refused(m *wire.Manifest, up Upload, digest string, r *inbox.Refusal) *inbox.Batch {
	b := a.row(m, up)
	b.ID += "+" + digest[:12]
	b.State, b.Reason, b.Detail = wire.StateQuarantined, r.Reason, r.Detail
	return b
}

// damaged reports whether the batch of manifest m is in the quarantine, and not discarded, because
// its bytes do not match m. No other fault can be mended by sending the batch again.
func damaged(b *inbox.Batch, m *wire.Manifest) bool {
	return b != nil && b.State == wire.StateQuarantined && b.Reason == wire.ReasonSHAMismatch && b.Decision != inbox.Discarded && b.SHA256 == m.SHA256
}

// replaces reports whether up has the right bytes for a damaged batch. It reads the whole file, so
// call it before any lock is taken.
func (a *Acceptor) replaces(ctx context.Context, up Upload, m *wire.Manifest) (bool, error) {
	old, err := a.opt.Ledger.Get(ctx, string(m.Batch))
	if err != nil {
		return false, fmt.Errorf("ledger: %w", err)
	}
	if !damaged(old, m) || up.Path == "" {
		return false, nil
	}
	n, sum, err := digest(ctx, up.Path)
	if err == nil && n < m.Size {
		err = &inbox.Incomplete{Batch: m.Batch, Have: n, Want: m.Size}
	}
	return sum == m.SHA256, err
}

// replace puts an upload in place of a damaged batch's file.
func (a *Acceptor) replace(ctx context.Context, old *inbox.Batch, up Upload, m *wire.Manifest, signed []byte) (receipt *wire.Receipt, fresh bool, err error) {
	if m.Inferred && !old.Inferred {
		signed = nil // keep the old manifest, which is signed
	}
	old.Inferred = old.Inferred && m.Inferred
	b, err := a.opt.Quarantine.Replace(ctx, old, up.Path, signed)
	if err != nil {
		return nil, false, err
	}
	a.opt.Log.InfoContext(ctx, "a batch that had arrived damaged came again", "batch", old.Batch, "robot", old.Robot, "protocol", up.Protocol)
	return receiptOf(b), true, nil
}

// digest returns the size and the SHA-256 of a file.
func digest(ctx context.Context, path string) (size int64, sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	sum, size, err = wire.DigestOf(stream.UntilDone(ctx, f))
	return size, sum, err
}

// Receipt returns the unsigned receipt of a batch, or nil if no batch with this ID was accepted.
func (a *Acceptor) Receipt(ctx context.Context, id wire.BatchID) (*wire.Receipt, error) {
	b, err := a.opt.Ledger.Get(ctx, string(id))
	if b == nil || err != nil {
		return nil, err
	}
	return receiptOf(b), nil
}

// ReceiptFor returns the receipt for the bytes with the given digest, or nil. Bytes that were
// refused because of their ID or signature have a receipt too. Without a digest it returns the
// receipt of the accepted batch, or else of the upload that was refused last.
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

// Unsplit returns the total size, in bytes, of the accepted batches that are not split yet.
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
