package inbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

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

// Order says who decides about a batch, and why.
type Order struct {
	By   string `json:"by" doc:"who decides"`
	Note string `json:"note,omitempty" doc:"why; kept with the batch"`
	// With Undo, Discard keeps the file for UndoFor, so that Undiscard can take the decision back.
	Undo bool `json:"-"`
}

// UndoFor is how long a decision can be taken back, if its Order says so.
const UndoFor = time.Hour

// Undecidable says why a decision about a batch cannot be carried out.
type Undecidable struct{ Detail string }

func (e *Undecidable) Error() string { return e.Detail }

// waivable are the reasons that an operator may set aside, because they are judgements. The other
// reasons are facts about bytes: they would hold again when the batch is tried again.
var waivable = map[wire.Reason]bool{wire.ReasonHostNotAssigned: true, wire.ReasonClock: true}

// Release makes a quarantined batch received again, and returns its new row. If the reason is a
// judgement (host_not_assigned, clock), it is waived for this batch. Any other fault will be found
// again. The files return first and the row follows: after a crash in between the batch is still
// quarantined. Release returns nil if there is no such batch, and *Undecidable if the batch cannot
// be released.
func (q *Quarantine) Release(ctx context.Context, id string, word Order) (*Batch, error) {
	q.deciding.Lock()
	defer q.deciding.Unlock()
	b, err := q.decidable(ctx, id)
	if b == nil || err != nil {
		return nil, err
	}
	if b.ID != string(b.Batch) && b.Inferred {
		return nil, &Undecidable{"batch " + id + " came without a manifest and cannot be taken (" + string(b.Reason) + "); here it can only be discarded"}
	}
	if b.ID != string(b.Batch) {
		return nil, &Undecidable{"batch " + id + " was refused at the door (" + string(b.Reason) + "): its robot sends it again, under a new ID and with its own key; here it can only be discarded"}
	}
	waived := b.Waived
	if waivable[b.Reason] && !b.Waives(b.Reason) {
		waived += string(b.Reason) + " "
	}
	b.Decided = Decided{Decision: Released, DecidedBy: word.By, DecidedAt: q.env.Now(), Note: word.Note, Waived: waived}
	released, err := q.receiveAgain(ctx, b)
	if err != nil {
		return nil, err
	}
	q.env.Log.WarnContext(ctx, "operator releases batch", "batch", b.ID, "by", word.By, "note", word.Note, "reason", b.Reason)
	return released, nil
}

// Discard deletes a quarantined batch's file, and returns its new row. Row, manifest and reason
// stay, so the ID stays used and the robot is told. The row comes first; if the deletion fails,
// EraseDue repeats it. With word.Undo only EraseDue deletes the file, after UndoFor. Discard fails
// as Release does, also if the batch is discarded already.
func (q *Quarantine) Discard(ctx context.Context, id string, word Order) (*Batch, error) {
	q.deciding.Lock()
	defer q.deciding.Unlock()
	b, err := q.decidable(ctx, id)
	if b == nil || err != nil {
		return nil, err
	}
	b.Decision, b.DecidedBy, b.DecidedAt, b.Note = Discarded, word.By, q.env.Now(), word.Note
	erase := b.DecidedAt
	if word.Undo {
		erase = erase.Add(UndoFor)
	}
	if err := q.env.Write(BoundaryDiscard, func() error { return q.env.Ledger.Discard(ctx, b, erase) }); err != nil {
		return nil, err
	}
	q.env.Log.WarnContext(ctx, "operator discards batch", "batch", b.ID, "by", word.By, "note", word.Note, "reason", b.Reason)
	if !word.Undo {
		if err := q.erase(ctx, b); err != nil {
			return nil, err
		}
	}
	return q.env.Ledger.Get(ctx, id)
}

// Undiscard takes back a decision to discard a batch, while the batch's file is kept. The batch
// waits for another decision. Undiscard returns nil if there is no such batch, and *Undecidable if
// the batch is not discarded or its file is due to be deleted.
func (q *Quarantine) Undiscard(ctx context.Context, id string, word Order) (*Batch, error) {
	q.deciding.Lock()
	defer q.deciding.Unlock()
	b, err := q.env.Ledger.Get(ctx, id)
	if b == nil || err != nil {
		return nil, err
	}
	switch err := q.env.Ledger.Undiscard(ctx, b, q.env.Now()); {
	case errors.Is(err, ErrLost):
		return nil, &Undecidable{"batch " + id + " is not discarded, or its file is deleted already"}
	case err != nil:
		return nil, err
	}
	q.env.Log.WarnContext(ctx, "operator takes back that a batch is discarded", "batch", b.ID, "by", word.By)
	return q.env.Ledger.Get(ctx, id)
}

// EraseDue deletes the files of discarded batches once the decisions cannot be taken back any more.
// It reports whether it deleted any file.
func (q *Quarantine) EraseDue(ctx context.Context) (did bool, err error) {
	if due, err := q.env.Ledger.Unerased(ctx, q.env.Now()); err != nil || len(due) == 0 { // mostly: so it takes no lock
		return false, err
	}
	q.deciding.Lock()
	defer q.deciding.Unlock()
	return q.eraseDue(ctx)
}

func (q *Quarantine) eraseDue(ctx context.Context) (did bool, err error) {
	discarded, err := q.env.Ledger.Unerased(ctx, q.env.Now())
	if err != nil {
		return false, err
	}
	for _, b := range discarded {
		if err := q.erase(ctx, b); err != nil {
			return false, err
		}
	}
	return len(discarded) > 0, nil
}

// decidable returns a quarantined batch after its files were moved aside. It fails with
// *Undecidable if the batch is not quarantined, or is discarded.
func (q *Quarantine) decidable(ctx context.Context, id string) (*Batch, error) {
	b, err := q.env.Ledger.Get(ctx, id)
	switch {
	case b == nil || err != nil:
		return nil, err
	case b.State != wire.StateQuarantined:
		return nil, &Undecidable{"batch " + id + " is " + string(b.State) + "; only a quarantined batch can be released or discarded"}
	case b.Decision == Discarded:
		return nil, &Undecidable{fmt.Sprintf("batch %s was discarded by %s at %s; its ID stays used, a new batch needs a new one", id, b.DecidedBy, b.DecidedAt.Format(time.RFC3339))}
	}
	return b, q.env.MoveAside(b)
}

// erase deletes a discarded batch's file, and records that.
func (q *Quarantine) erase(ctx context.Context, b *Batch) error {
	if err := q.env.Erase(ctx, b); err != nil {
		return fmt.Errorf("discard batch %s: %w", b.ID, err)
	}
	return q.env.Write(BoundaryErased, func() error { return q.env.Ledger.Erased(ctx, b) })
}
