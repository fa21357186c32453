package ingest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/durable"
	"sheaf/internal/wire"
)

// Decision is what an operator has decided about a quarantined batch.
type Decision string

const (
	Released  Decision = "released"  // taken up again
	Discarded Decision = "discarded" // its file deleted; its ID stays used
)

// Word is the word of an operator: who decides, and why.
type Word struct {
	By   string `json:"by"`
	Note string `json:"note,omitempty"`
}

// Undecidable says why a decision about a batch cannot be carried out.
type Undecidable struct{ Detail string }

func (e *Undecidable) Error() string { return e.Detail }

// waivable are the reasons that are judgements, which an operator may set aside;
// the others are facts about bytes, and hold when the batch is tried again.
var waivable = map[wire.Reason]bool{wire.ReasonHostNotAssigned: true, wire.ReasonClock: true}

// waives reports whether an operator has set the reason aside for this batch.
func (b *Batch) waives(r wire.Reason) bool {
	return strings.Contains(" "+b.Waived, " "+string(r)+" ")
}

// Release takes a quarantined batch up again from received. Where a judgement had
// stopped it (host_not_assigned, clock), this judgement is waived for good; any other fault is
// looked for again. The files return first and the row follows, which alone makes it count:
// a crash in between leaves the batch quarantined. A batch that is none, or is
// in no state to be released, gives nil or *Undecidable.
func (i *Ingest) Release(ctx context.Context, id string, word Word) (*Batch, error) {
	i.deciding.Lock()
	defer i.deciding.Unlock()
	b, err := i.decidable(ctx, id)
	if b == nil || err != nil {
		return nil, err
	}
	if b.ID != string(b.Batch) && b.Inferred {
		return nil, &Undecidable{"batch " + id + " came without a manifest and cannot be taken (" + string(b.Reason) + "); here it can only be discarded"}
	}
	if b.ID != string(b.Batch) {
		return nil, &Undecidable{"batch " + id + " was refused at the door (" + string(b.Reason) + "): its robot sends it again, under a new ID and with its own key; here it can only be discarded"}
	}
	if err := i.write(writeRestore, func() error { return i.buffers.restore(b.ID) }); err != nil {
		return nil, err
	}
	waived := b.Waived
	if waivable[b.Reason] && !b.waives(b.Reason) {
		waived += string(b.Reason) + " "
	}
	if err := i.write(writeRelease, func() error { return i.ledger.takeUp(ctx, b, word, waived, i.opt.Now()) }); err != nil {
		return nil, err
	}
	i.log.Warn("operator releases batch", "batch", b.ID, "by", word.By, "note", word.Note, "reason", b.Reason)
	i.moved(b, wire.StateQuarantined, wire.StateReceived, b.Reason)
	wake(i.splitWake)
	return i.ledger.get(ctx, id)
}

// Discard deletes a quarantined batch's file. Row, manifest and reason stay, so
// the ID stays used and the robot is told. The row comes first; the deletion is repeated
// by the next start. It may be repeated, and fails as Release does.
func (i *Ingest) Discard(ctx context.Context, id string, word Word) (*Batch, error) {
	i.deciding.Lock()
	defer i.deciding.Unlock()
	b, err := i.decidable(ctx, id)
	if b == nil || err != nil {
		return nil, err
	}
	if err := i.write(writeDiscard, func() error { return i.ledger.discard(ctx, b, word, i.opt.Now()) }); err != nil {
		return nil, err
	}
	i.log.Warn("operator discards batch", "batch", b.ID, "by", word.By, "note", word.Note, "reason", b.Reason)
	if err := i.erase(ctx, b); err != nil {
		return nil, err
	}
	return i.ledger.get(ctx, id)
}

// decidable gives a quarantined batch that lies in the quarantine's folder.
func (i *Ingest) decidable(ctx context.Context, id string) (*Batch, error) {
	b, err := i.ledger.get(ctx, id)
	switch {
	case b == nil || err != nil:
		return nil, err
	case b.State != wire.StateQuarantined:
		return nil, &Undecidable{"batch " + id + " is " + string(b.State) + "; only a quarantined batch can be released or discarded"}
	case b.Decision == Discarded:
		return nil, &Undecidable{fmt.Sprintf("batch %s was discarded by %s at %s; its ID stays used, a new batch needs a new one", id, b.DecidedBy, b.DecidedAt.Format(time.RFC3339))}
	}
	return b, i.moveAside(b)
}

// erase deletes a discarded batch's file, and notes that it is gone.
func (i *Ingest) erase(ctx context.Context, b *Batch) error {
	if err := i.write(writeErase, func() error { return i.buffers.erase(b.ID) }); err != nil {
		return fmt.Errorf("discard batch %s: %w", b.ID, err)
	}
	return i.write(writeErased, func() error { return i.ledger.erased(ctx, b) })
}

// DecisionBoundaries names the durable writes of Release and Discard, as
// Boundaries does those of a batch's way.
func DecisionBoundaries() []string {
	return []string{writeRestore, writeRelease, writeDiscard, writeErase, writeErased}
}

const (
	writeRestore = "restore" // a released batch's directory moved back
	writeRelease = "release" // the row: received
	writeDiscard = "discard" // the row: discarded
	writeErase   = "erase"   // a discarded batch's file deleted
	writeErased  = "erased"  // the row: collected
)

// restore moves a batch back from the quarantine. It may be repeated.
func (b buffers) restore(id string) error {
	if _, err := os.Stat(b.batch(id)); err == nil {
		return nil
	}
	return durable.Rename(b.quarantine(id), b.batch(id))
}

// erase deletes the file of a batch in quarantine. It may be repeated.
func (b buffers) erase(id string) error {
	err := durable.Remove(b.quarantine(id) + "/batch.tar.gz")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// takeUp moves a quarantined batch back to received.
func (l *ledger) takeUp(ctx context.Context, b *Batch, word Word, waived string, now time.Time) error {
	return changed(l.db.ExecContext(ctx, `UPDATE ingest_batches
		SET state = 'received', entered_at = ?1, reason = '', detail = '', failures = 0, not_before = 0, last_error = '',
			decision = 'released', decided_by = ?2, decided_at = ?1, note = ?3, waived = ?4
		WHERE id = ?5 AND token = ?6 AND state = 'quarantined' AND decision <> 'discarded'`,
		db.Millis(now), word.By, word.Note, waived, b.ID, b.token))
}

// discard notes that a quarantined batch is not wanted.
func (l *ledger) discard(ctx context.Context, b *Batch, word Word, now time.Time) error {
	return changed(l.db.ExecContext(ctx, `UPDATE ingest_batches
		SET decision = 'discarded', decided_by = ?, decided_at = ?, note = ?
		WHERE id = ? AND token = ? AND state = 'quarantined'`, word.By, db.Millis(now), word.Note, b.ID, b.token))
}

// erased notes that a discarded batch's file is gone.
func (l *ledger) erased(ctx context.Context, b *Batch) error {
	return changed(l.db.ExecContext(ctx, `UPDATE ingest_batches SET collected = 1 WHERE id = ? AND decision = 'discarded'`, b.ID))
}

// unerased gives discarded batches whose files may still be there.
func (l *ledger) unerased(ctx context.Context) ([]*Batch, error) {
	return l.query(ctx, `SELECT `+columns+` FROM ingest_batches WHERE state = 'quarantined' AND decision = 'discarded' AND collected = 0`)
}

// byDigest gives the row of a batch's bytes: of the batch itself where it has that
// digest, else of the latest refused newcomer under its ID. An empty digest is any.
func (l *ledger) byDigest(ctx context.Context, id wire.BatchID, sha256 string) (*Batch, error) {
	list, err := l.query(ctx, `SELECT `+columns+` FROM ingest_batches
		WHERE (id = ?1 OR id > ?1 || '+' AND id < ?1 || ',') AND (?2 = '' OR sha256 = ?2)
		ORDER BY id = ?1 DESC, received_at DESC LIMIT 1`, id, sha256)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0], nil
}
