package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sheaf/internal/wire"
)

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
