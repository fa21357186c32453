package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sheaf/archive/catalog"
	"sheaf/internal/db"
	"sheaf/internal/lease"
	"sheaf/internal/wire"
)

// Claim has the parameters of Ledger.Claim.
type Claim struct {
	Holder  string
	Now     time.Time
	Lease   time.Duration
	Backoff time.Duration // the longest time by which a batch is postponed
}

// Claim moves the batch that has waited longest to pre-split and leases it to the holder. It counts
// the attempt, raises the token and deletes the staged entries of earlier attempts. It returns nil
// if no batch is due. A lease or delay that ends too far in the future counts as past, because the
// clock was set back.
func (l *Ledger) Claim(ctx context.Context, c Claim) (b *Batch, err error) {
	err = db.Transact(ctx, l.db, nil, func(tx *sql.Tx) error {
		b, err = scan(tx.QueryRowContext(ctx, `UPDATE ingest_batches
			SET entered_at = CASE state WHEN 'received' THEN ?1 ELSE entered_at END,
				state = 'pre-split', attempt = attempt + 1, token = token + 1, holder = ?2, lease_until = ?3
			WHERE id = (SELECT id FROM ingest_batches
				WHERE state IN ('received', 'pre-split')
					AND (not_before <= ?1 OR not_before > ?4)
					AND (state = 'received' OR lease_until <= ?1 OR lease_until > ?5)
				ORDER BY received_at, id LIMIT 1)
			RETURNING `+columns, db.Millis(c.Now), c.Holder, db.Millis(c.Now.Add(c.Lease)),
			db.Millis(c.Now.Add(2*c.Backoff)), db.Millis(c.Now.Add(2*c.Lease))))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM ingest_lines WHERE id = ?`, b.ID)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Extend sets the end of the holder's lease on a batch. The zero time ends the lease.
func (l *Ledger) Extend(ctx context.Context, b *Batch, until time.Time) error {
	return l.change(ctx, `UPDATE ingest_batches SET lease_until = ?
		WHERE id = ? AND token = ? AND state = 'pre-split'`, db.Millis(until), b.ID, b.token)
}

// FreeDead ends the leases of holders that p knows to have died, and returns the number of ended
// leases.
func (l *Ledger) FreeDead(ctx context.Context, p *lease.Presence) (freed int64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("leases of the dead: %w", err)
		}
	}()
	holders, err := db.Column[string](ctx, l.db, `SELECT DISTINCT holder FROM ingest_batches WHERE state = 'pre-split' AND lease_until > 0`)
	if err != nil {
		return 0, err
	}
	for _, holder := range holders {
		gone, err := p.Gone(holder)
		if err != nil {
			return freed, err
		}
		if !gone {
			continue
		}
		n, err := db.Exec(ctx, l.db, `UPDATE ingest_batches SET lease_until = 0 WHERE state = 'pre-split' AND holder = ?`, holder)
		if err != nil {
			return freed, err
		}
		freed += n
	}
	return freed, nil
}

// Split changes the state of a batch to post-split, after its hosts were staged. detail has
// remarks, such as which hosts are left out.
func (l *Ledger) Split(ctx context.Context, b *Batch, detail string, now time.Time) error {
	return l.change(ctx, `UPDATE ingest_batches
		SET state = 'post-split', entered_at = ?, failures = 0, not_before = 0, last_error = '', detail = ?
		WHERE id = ? AND token = ? AND state = 'pre-split'`, db.Millis(now), detail, b.ID, b.token)
}

// Postpone ends the lease after a temporary failure. The batch may be claimed again from until on.
func (l *Ledger) Postpone(ctx context.Context, b *Batch, until time.Time, cause error) error {
	return l.change(ctx, `UPDATE ingest_batches
		SET failures = failures + 1, not_before = ?, last_error = ?, lease_until = 0
		WHERE id = ? AND token = ? AND state = 'pre-split'`, db.Millis(until), cause.Error(), b.ID, b.token)
}

// Quarantine changes the state of a batch that is being split to quarantined.
func (l *Ledger) Quarantine(ctx context.Context, b *Batch, reason wire.Reason, detail string, now time.Time) error {
	return l.change(ctx, `UPDATE ingest_batches
		SET state = 'quarantined', entered_at = ?, reason = ?, detail = ?
		WHERE id = ? AND token = ? AND state = 'pre-split'`, db.Millis(now), reason, detail, b.ID, b.token)
}

// ReceiveAgain moves a quarantined batch back to received, and stores b's decision, b.Inferred and
// b.Incoming. If b.Incoming is new, the old objects are doomed.
func (l *Ledger) ReceiveAgain(ctx context.Context, b *Batch, now time.Time) error {
	return db.Transact(ctx, l.db, nil, func(tx *sql.Tx) error {
		var old string
		err := tx.QueryRowContext(ctx, `SELECT incoming FROM ingest_batches WHERE id = ?`, b.ID).Scan(&old)
		if err == nil && old != b.Incoming {
			err = adopt(ctx, tx, b.Incoming)
			if err == nil && old != "" {
				_, err = tx.ExecContext(ctx, `INSERT INTO ingest_incoming (name, since, doomed) VALUES (?, ?, 1)`, old, db.Millis(now))
			}
		}
		if err != nil {
			return err
		}
		return db.Change(ctx, tx, ErrLost, `UPDATE ingest_batches
			SET state = 'received', entered_at = ?, reason = '', detail = '', failures = 0, not_before = 0, last_error = '',
				inferred = ?, incoming = ?, decision = ?, decided_by = ?, decided_at = ?, note = ?, waived = ?
			WHERE id = ? AND token = ? AND state = 'quarantined' AND decision <> 'discarded' AND incoming = ?`,
			db.Millis(now), b.Inferred, b.Incoming, b.Decision, b.DecidedBy, db.Millis(b.DecidedAt), b.Note, b.Waived, b.ID, b.token, old)
	})
}

// Discard records b's decision to discard a quarantined batch. The batch's file is due to be
// deleted at the time erase.
func (l *Ledger) Discard(ctx context.Context, b *Batch, erase time.Time) error {
	return l.change(ctx, `UPDATE ingest_batches
		SET decision = ?, decided_by = ?, decided_at = ?, note = ?, not_before = ?
		WHERE id = ? AND token = ? AND state = 'quarantined'`, b.Decision, b.DecidedBy, db.Millis(b.DecidedAt), b.Note, db.Millis(erase), b.ID, b.token)
}

// Undiscard takes back that a batch is discarded. It fails with ErrLost if the batch is not
// discarded, or if its file is due to be deleted.
func (l *Ledger) Undiscard(ctx context.Context, b *Batch, now time.Time) error {
	return l.change(ctx, `UPDATE ingest_batches
		SET decision = '', decided_by = '', decided_at = 0, note = '', not_before = 0
		WHERE id = ? AND state = 'quarantined' AND decision = 'discarded' AND collected = 0 AND not_before > ?`, b.ID, db.Millis(now))
}

// Erased records that a discarded batch's file is deleted.
func (l *Ledger) Erased(ctx context.Context, b *Batch) error {
	return l.change(ctx, `UPDATE ingest_batches SET collected = 1 WHERE id = ? AND decision = 'discarded'`, b.ID)
}

// Published changes the state of post-split batches to published, all or none. v is the catalog's
// version with the batches.
func (l *Ledger) Published(ctx context.Context, batches []*Batch, v catalog.Version, now time.Time) error {
	return db.Transact(ctx, l.db, nil, func(tx *sql.Tx) error {
		for _, b := range batches {
			if _, err := tx.ExecContext(ctx, `UPDATE ingest_batches SET state = 'published', entered_at = ?, edition = ?, version = ?
				WHERE id = ? AND state = 'post-split'`, db.Millis(now), v.Edition, v.N, b.ID); err != nil {
				return err
			}
		}
		return nil
	})
}

// Recall moves a robot's batches in pre-split and post-split back to received, and returns how
// many. A worker that is splitting one of them loses it.
func (l *Ledger) Recall(ctx context.Context, robot string, now time.Time) (int64, error) {
	return db.Exec(ctx, l.db, `UPDATE ingest_batches
		SET state = 'received', entered_at = ?, token = token + 1, detail = '', failures = 0, not_before = 0, last_error = ''
		WHERE robot = ? AND state IN ('pre-split', 'post-split')`, db.Millis(now), robot)
}

// Collected records that a published batch's file is deleted. It deletes the batch's staged
// entries, because the catalog has them.
func (l *Ledger) Collected(ctx context.Context, b *Batch) error {
	return db.Transact(ctx, l.db, nil, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE ingest_batches SET collected = 1 WHERE id = ? AND state = 'published'`, b.ID)
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM ingest_lines WHERE id = ?`, b.ID)
		}
		return err
	})
}

// change runs an update of one row. If no row matches, it returns ErrLost.
func (l *Ledger) change(ctx context.Context, query string, args ...any) error {
	return db.Change(ctx, l.db, ErrLost, query, args...)
}
