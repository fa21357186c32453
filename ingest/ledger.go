package ingest

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"sheaf/archive/catalog"
	"sheaf/internal/db"
	"sheaf/internal/wire"
)

// Batch is one row of the ledger: a batch and how far it has come.
type Batch struct {
	ID       string       `json:"id"` // the batch ID; of a refused newcomer, with a suffix
	Batch    wire.BatchID `json:"batch"`
	Robot    string       `json:"robot"`
	Protocol string       `json:"protocol,omitempty"`
	SHA256   string       `json:"sha256"`
	Size     int64        `json:"bytes"`
	Hosts    int64        `json:"hosts"`
	Inferred bool         `json:"inferred,omitempty"` // came without a manifest
	Express  bool         `json:"express,omitempty"`  // may be published outside the window

	State     wire.State  `json:"state"`
	Attempt   int64       `json:"attempt"`
	Failures  int         `json:"failures,omitempty"`
	LastError string      `json:"last_error,omitempty"`
	Reason    wire.Reason `json:"reason,omitempty"`
	Detail    string      `json:"detail,omitempty"`
	Edition   string      `json:"edition,omitempty"`
	Version   int64       `json:"version,omitempty"`
	Received  time.Time   `json:"received"`
	Entered   time.Time   `json:"entered"` // when it entered State
	Collected bool        `json:"collected,omitempty"`

	Decision  Decision  `json:"decision,omitempty"` // an operator's, the latest
	DecidedBy string    `json:"decided_by,omitempty"`
	DecidedAt time.Time `json:"decided_at,omitzero"`
	Note      string    `json:"note,omitempty"`
	Waived    string    `json:"waived,omitempty"` // reasons that no longer stop it, each followed by a space

	token int64 // what the holder must show to move it
}

const columns = `id, batch, robot, protocol, sha256, size, hosts, state, attempt, failures, last_error,
	reason, detail, edition, version, received_at, entered_at, collected, token,
	decision, decided_by, decided_at, note, waived, inferred, express`

func scanBatch(row interface{ Scan(...any) error }) (*Batch, error) {
	var b Batch
	var received, entered, decided int64
	err := row.Scan(&b.ID, &b.Batch, &b.Robot, &b.Protocol, &b.SHA256, &b.Size, &b.Hosts, &b.State, &b.Attempt, &b.Failures, &b.LastError,
		&b.Reason, &b.Detail, &b.Edition, &b.Version, &received, &entered, &b.Collected, &b.token,
		&b.Decision, &b.DecidedBy, &decided, &b.Note, &b.Waived, &b.Inferred, &b.Express)
	b.Received, b.Entered, b.DecidedAt = db.Time(received), db.Time(entered), db.Time(decided)
	return &b, err
}

// errLost says that a batch is no longer this worker's to move.
var errLost = errors.New("another worker has taken the batch over")

// ledger keeps the rows. Every change is one transaction, durable when it returns.
type ledger struct{ db *sql.DB }

// enter adds a row in the state that b says.
func (l *ledger) enter(ctx context.Context, b *Batch) error {
	_, err := l.db.ExecContext(ctx, `INSERT INTO ingest_batches
		(id, batch, robot, protocol, sha256, size, hosts, inferred, express, state, reason, detail, received_at, entered_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		b.ID, b.Batch, b.Robot, b.Protocol, b.SHA256, b.Size, b.Hosts, b.Inferred, b.Express, b.State, b.Reason, b.Detail, db.Millis(b.Received), db.Millis(b.Entered))
	return err
}

// get gives a row, nil where there is none.
func (l *ledger) get(ctx context.Context, id string) (*Batch, error) {
	b, err := scanBatch(l.db.QueryRowContext(ctx, `SELECT `+columns+` FROM ingest_batches WHERE id = ?`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return b, err
}

// filter picks rows for a listing; zero fields pick all.
type filter struct {
	state wire.State
	robot string
	limit int
}

// list gives rows, those received last first.
func (l *ledger) list(ctx context.Context, f filter) ([]*Batch, error) {
	var where []string
	var args []any
	if f.state != "" {
		where, args = append(where, "state = ?"), append(args, f.state)
	}
	if f.robot != "" {
		where, args = append(where, "robot = ?"), append(args, f.robot)
	}
	query := `SELECT ` + columns + ` FROM ingest_batches`
	if where != nil {
		query += ` WHERE ` + strings.Join(where, " AND ")
	}
	query += ` ORDER BY received_at DESC, id DESC`
	if f.limit > 0 {
		query, args = query+` LIMIT ?`, append(args, f.limit)
	}
	return l.query(ctx, query, args...)
}

// uncollected gives published batches whose files are still there, since before a time.
func (l *ledger) uncollected(ctx context.Context, before time.Time) ([]*Batch, error) {
	return l.query(ctx, `SELECT `+columns+` FROM ingest_batches WHERE state = 'published' AND collected = 0 AND entered_at <= ?`, db.Millis(before))
}

func (l *ledger) query(ctx context.Context, query string, args ...any) ([]*Batch, error) {
	rows, err := l.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []*Batch
	for rows.Next() {
		b, err := scanBatch(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, rows.Err()
}

// claim takes the batch that has waited longest and may be tried now, raises its
// attempt and its token, leases it to the holder, and forgets the lines of earlier
// attempts. It gives nil where there is none. Times that lie farther ahead than
// they are ever set have passed: the clock was set back since.
func (l *ledger) claim(ctx context.Context, holder string, now time.Time, limits *Limits) (*Batch, error) {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	b, err := scanBatch(tx.QueryRowContext(ctx, `UPDATE ingest_batches
		SET entered_at = CASE state WHEN 'received' THEN ?1 ELSE entered_at END,
			state = 'pre-split', attempt = attempt + 1, token = token + 1, holder = ?2, lease_until = ?3
		WHERE id = (SELECT id FROM ingest_batches
			WHERE state IN ('received', 'pre-split')
				AND (not_before <= ?1 OR not_before > ?4)
				AND (state = 'received' OR lease_until <= ?1 OR lease_until > ?5)
			ORDER BY received_at, id LIMIT 1)
		RETURNING `+columns, db.Millis(now), holder, db.Millis(now.Add(limits.Lease)),
		db.Millis(now.Add(2*limits.BackoffMax)), db.Millis(now.Add(2*limits.Lease))))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM ingest_lines WHERE id = ?`, b.ID); err != nil {
		return nil, err
	}
	return b, tx.Commit()
}

// stage records the lines of some hosts of b's attempt.
func (l *ledger) stage(ctx context.Context, b *Batch, lines []catalog.SegmentEntry) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	insert, err := tx.PrepareContext(ctx, `INSERT INTO ingest_lines (id, host, attempt, line)
		SELECT id, ?, attempt, ? FROM ingest_batches WHERE id = ? AND token = ? AND state = 'pre-split'`)
	if err != nil {
		return err
	}
	defer insert.Close()
	for _, line := range lines {
		data, err := json.Marshal(line)
		if err != nil {
			return err
		}
		if err := changed(insert.ExecContext(ctx, line.Host, string(data), b.ID, b.token)); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// split moves a batch whose hosts are staged to post-split. The detail says which hosts are
// left out.
func (l *ledger) split(ctx context.Context, b *Batch, detail string, now time.Time) error {
	return changed(l.db.ExecContext(ctx, `UPDATE ingest_batches
		SET state = 'post-split', entered_at = ?, failures = 0, not_before = 0, last_error = '', detail = ?
		WHERE id = ? AND token = ? AND state = 'pre-split'`, db.Millis(now), detail, b.ID, b.token))
}

// postpone gives a batch back after a failure that may pass by itself.
func (l *ledger) postpone(ctx context.Context, b *Batch, until time.Time, cause error) error {
	return changed(l.db.ExecContext(ctx, `UPDATE ingest_batches
		SET failures = failures + 1, not_before = ?, last_error = ?, lease_until = 0
		WHERE id = ? AND token = ? AND state = 'pre-split'`, db.Millis(until), cause.Error(), b.ID, b.token))
}

// quarantine ends a batch's way.
func (l *ledger) quarantine(ctx context.Context, b *Batch, r *Refusal, now time.Time) error {
	return changed(l.db.ExecContext(ctx, `UPDATE ingest_batches
		SET state = 'quarantined', entered_at = ?, reason = ?, detail = ?
		WHERE id = ? AND token = ? AND state = 'pre-split'`, db.Millis(now), r.Reason, r.Detail, b.ID, b.token))
}

// lines reads what the batches have staged, one line at a time.
func (l *ledger) lines(ctx context.Context, batches []*Batch) iter.Seq2[catalog.SegmentEntry, error] {
	return func(yield func(catalog.SegmentEntry, error) bool) {
		for _, b := range batches {
			if err := l.eachLine(ctx, b, func(line catalog.SegmentEntry) bool { return yield(line, nil) }); err != nil {
				if !errors.Is(err, errStopped) {
					yield(catalog.SegmentEntry{}, err)
				}
				return
			}
		}
	}
}

var errStopped = errors.New("the reader wants no more lines")

func (l *ledger) eachLine(ctx context.Context, b *Batch, f func(catalog.SegmentEntry) bool) error {
	rows, err := l.db.QueryContext(ctx, `SELECT line FROM ingest_lines WHERE id = ? ORDER BY host`, b.ID)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var data []byte
		var line catalog.SegmentEntry
		if err := rows.Scan(&data); err != nil {
			return err
		}
		if err := json.Unmarshal(data, &line); err != nil {
			return fmt.Errorf("staged line of batch %s: %w", b.ID, err)
		}
		if !f(line) {
			return errStopped
		}
	}
	return rows.Err()
}

// published moves batches that the catalog holds to their last state, all or none.
func (l *ledger) published(ctx context.Context, batches []*Batch, v catalog.Version, now time.Time) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, b := range batches {
		if _, err := tx.ExecContext(ctx, `UPDATE ingest_batches SET state = 'published', entered_at = ?, edition = ?, version = ?
			WHERE id = ? AND state = 'post-split'`, db.Millis(now), v.Edition, v.N, b.ID); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// collected notes that the batch's file is gone, and drops its lines: the catalog has them.
func (l *ledger) collected(ctx context.Context, b *Batch) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `UPDATE ingest_batches SET collected = 1 WHERE id = ? AND state = 'published'`, b.ID); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM ingest_lines WHERE id = ?`, b.ID); err != nil {
		return err
	}
	return tx.Commit()
}

// changed turns an update that found no row into errLost.
func changed(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return errLost
}

// buffers sums the rows up by state, those apart whose files were discarded;
// states without rows are absent.
func (l *ledger) buffers(ctx context.Context, now time.Time) (map[wire.State]Buffer, error) {
	rows, err := l.db.QueryContext(ctx, `SELECT state, count(*), sum(size), min(entered_at) FROM ingest_batches WHERE decision <> 'discarded' GROUP BY state`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	sums := make(map[wire.State]Buffer)
	for rows.Next() {
		var b Buffer
		var oldest int64
		if err := rows.Scan(&b.State, &b.Batches, &b.Bytes, &oldest); err != nil {
			return nil, err
		}
		b.Oldest = age(now, db.Time(oldest))
		sums[b.State] = b
	}
	return sums, rows.Err()
}
