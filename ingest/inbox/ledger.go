package inbox

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
)

// Batch is one row of the ledger: a batch and its state.
type Batch struct {
	ID       string       `json:"id"` // the batch ID; a refused upload has a suffix
	Batch    wire.BatchID `json:"batch"`
	Robot    string       `json:"robot"`
	Protocol string       `json:"protocol,omitempty"`
	SHA256   string       `json:"sha256"`
	Size     int64        `json:"bytes"`
	Hosts    int64        `json:"hosts"`
	Inferred bool         `json:"inferred,omitempty"` // came without a manifest
	Express  bool         `json:"express,omitempty"`  // may be published outside the window

	State wire.State `json:"state"`
	Work
	Reason    wire.Reason `json:"reason,omitempty"`
	Detail    string      `json:"detail,omitempty"`
	Edition   string      `json:"edition,omitempty"`
	Version   int64       `json:"version,omitempty"`
	Received  time.Time   `json:"received"`
	Entered   time.Time   `json:"entered"`             // time of the change to State
	Collected bool        `json:"collected,omitempty"` // its file is deleted
	Incoming  string      `json:"incoming,omitempty"`  // name of its objects in the store until it is published; empty: its files are in the buffers

	Decided
}

// Work counts attempts to split a batch, and has the last error and the fencing token.
type Work struct {
	Attempt   int64  `json:"attempt"`
	Failures  int    `json:"failures,omitempty"` // failures in this state, in a row
	LastError string `json:"last_error,omitempty"`

	token int64 // fencing token, raised by every claim; only the worker with the latest token may move the batch
}

// Decided is the latest decision of an operator about a batch.
type Decided struct {
	Decision  Decision  `json:"decision,omitempty"`
	DecidedBy string    `json:"decided_by,omitempty"`
	DecidedAt time.Time `json:"decided_at,omitzero"`
	Note      string    `json:"note,omitempty"`
	Waived    string    `json:"waived,omitempty"` // reasons that no longer stop the batch, each followed by a space
}

// Decision is what an operator has decided about a quarantined batch.
type Decision string

const (
	Released  Decision = "released"  // received again
	Discarded Decision = "discarded" // its file is deleted; its ID stays used
)

// Waives reports whether an operator has waived the reason for this batch.
func (b *Batch) Waives(r wire.Reason) bool {
	return strings.Contains(" "+b.Waived, " "+string(r)+" ")
}

const columns = `id, batch, robot, protocol, sha256, size, hosts, state, attempt, failures, last_error,
	reason, detail, edition, version, received_at, entered_at, collected, token,
	decision, decided_by, decided_at, note, waived, inferred, express, incoming`

const selectBatches = `SELECT ` + columns + ` FROM ingest_batches`

func scan(row interface{ Scan(...any) error }) (*Batch, error) {
	var b Batch
	err := row.Scan(&b.ID, &b.Batch, &b.Robot, &b.Protocol, &b.SHA256, &b.Size, &b.Hosts, &b.State, &b.Attempt, &b.Failures, &b.LastError,
		&b.Reason, &b.Detail, &b.Edition, &b.Version, db.At(&b.Received), db.At(&b.Entered), &b.Collected, &b.token,
		&b.Decision, &b.DecidedBy, db.At(&b.DecidedAt), &b.Note, &b.Waived, &b.Inferred, &b.Express, &b.Incoming)
	return &b, err
}

// ErrLost says that a row is not as expected any more, mostly because another worker has claimed
// the batch.
var ErrLost = errors.New("another worker has taken the batch over")

// Ledger keeps the batches' rows in the control database. Its methods may be called concurrently,
// also by several processes.
type Ledger struct{ db *sql.DB }

// NewLedger returns the ledger in a database that internal/db has opened.
func NewLedger(d *sql.DB) *Ledger { return &Ledger{d} }

// Enter adds a row in the state b.State. It fails with ErrLost if b.Incoming is doomed.
func (l *Ledger) Enter(ctx context.Context, b *Batch) error {
	return db.Transact(ctx, l.db, nil, func(tx *sql.Tx) error {
		if err := adopt(ctx, tx, b.Incoming); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO ingest_batches
			(id, batch, robot, protocol, sha256, size, hosts, inferred, express, state, reason, detail, received_at, entered_at, incoming)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			b.ID, b.Batch, b.Robot, b.Protocol, b.SHA256, b.Size, b.Hosts, b.Inferred, b.Express, b.State, b.Reason, b.Detail, db.Millis(b.Received), db.Millis(b.Entered), b.Incoming)
		return err
	})
}

// Get returns the row with an ID, or nil if there is no such row.
func (l *Ledger) Get(ctx context.Context, id string) (*Batch, error) {
	return l.first(ctx, ` WHERE id = ?`, id)
}

// ByDigest returns the row for a batch's bytes: the batch's own row if it has the digest, or else
// the row of the latest refused upload under its ID. An empty digest matches any digest. ByDigest
// returns nil if there is no such row.
func (l *Ledger) ByDigest(ctx context.Context, id wire.BatchID, sha256 string) (*Batch, error) {
	return l.first(ctx, ` WHERE (id = ?1 OR id > ?1 || '+' AND id < ?1 || ',') AND (?2 = '' OR sha256 = ?2)
		ORDER BY id = ?1 DESC, received_at DESC LIMIT 1`, id, sha256)
}

// QuarantinedFile returns the row of a robot's file with the given digest. The file came without a
// manifest, and is in the quarantine under an ID of its own. nil: there is no such file.
func (l *Ledger) QuarantinedFile(ctx context.Context, robot, sha256 string) (*Batch, error) {
	return l.first(ctx, ` WHERE state = 'quarantined' AND robot = ? AND sha256 = ? AND inferred = 1 AND id <> batch`, robot, sha256)
}

func (l *Ledger) first(ctx context.Context, where string, args ...any) (*Batch, error) {
	b, err := scan(l.db.QueryRowContext(ctx, selectBatches+where, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return b, err
}

// Filter selects rows for a list. Zero fields select all.
type Filter struct {
	State     wire.State
	Robot     string
	Reason    wire.Reason
	Undecided bool   // no operator has decided about it
	After     string // ID of the row after which the list begins, in its order
	Limit     int
}

// List returns the rows that the filter selects, the latest received first.
func (l *Ledger) List(ctx context.Context, f Filter) ([]*Batch, error) {
	where, args := ` WHERE true`, []any{}
	if f.State != "" {
		where, args = where+` AND state = ?`, append(args, f.State)
	}
	if f.Robot != "" {
		where, args = where+` AND robot = ?`, append(args, f.Robot)
	}
	if f.Reason != "" {
		where, args = where+` AND reason = ?`, append(args, f.Reason)
	}
	if f.Undecided {
		where += ` AND decision = ''`
	}
	if f.After != "" {
		where, args = where+` AND (received_at, id) < (SELECT received_at, id FROM ingest_batches WHERE id = ?)`, append(args, f.After)
	}
	where += ` ORDER BY received_at DESC, id DESC`
	if f.Limit > 0 {
		where, args = where+` LIMIT ?`, append(args, f.Limit)
	}
	return l.list(ctx, where, args...)
}

// uncollected selects the published batches whose files still exist. The condition has an index of
// its own, because the table keeps a row for every batch ever.
const uncollected = ` WHERE state = 'published' AND collected = 0`

// Uncollected returns the published batches whose files still exist.
func (l *Ledger) Uncollected(ctx context.Context) ([]*Batch, error) {
	return l.list(ctx, uncollected)
}

// Unerased returns the discarded batches whose files may still be there, but are due to be deleted.
func (l *Ledger) Unerased(ctx context.Context, now time.Time) ([]*Batch, error) {
	return l.list(ctx, ` WHERE state = 'quarantined' AND decision = 'discarded' AND collected = 0 AND not_before <= ?`, db.Millis(now))
}

func (l *Ledger) list(ctx context.Context, where string, args ...any) ([]*Batch, error) {
	return db.List(ctx, l.db, func(rows *sql.Rows, b **Batch) (err error) {
		*b, err = scan(rows)
		return err
	}, selectBatches+where, args...)
}

// Underway returns the IDs of the batches that may still be published.
func (l *Ledger) Underway(ctx context.Context) ([]wire.BatchID, error) {
	return db.Column[wire.BatchID](ctx, l.db, `SELECT batch FROM ingest_batches WHERE state IN ('received', 'pre-split', 'post-split')`)
}

// Unsplit returns the total size, in bytes, of batches that are received and not split yet. Every
// upload calls it, so it uses the index of states: the table keeps a row for every batch ever.
func (l *Ledger) Unsplit(ctx context.Context) (bytes int64, err error) {
	err = l.db.QueryRowContext(ctx, `SELECT coalesce(sum(size), 0) FROM ingest_batches WHERE state IN ('received', 'pre-split')`).Scan(&bytes)
	return bytes, err
}

// LastVersion returns the highest catalog version in the published batches' rows, or 0.
func (l *Ledger) LastVersion(ctx context.Context) (n int64, err error) {
	err = l.db.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM ingest_batches`).Scan(&n)
	return n, err
}

// Buffer sums up the batches in one state.
type Buffer struct {
	State   wire.State `json:"state"`
	Batches int64      `json:"batches"`
	Bytes   int64      `json:"bytes"`
	Oldest  float64    `json:"oldest_seconds"` // seconds since the oldest batch entered the state; 0 if there is none
}

// states has the states in the order in which a batch passes through them.
var states = []wire.State{wire.StateReceived, wire.StatePreSplit, wire.StatePostSplit, wire.StatePublished, wire.StateQuarantined}

// Buffers returns the number and the size of the batches in each state, without discarded ones, in
// the order of the states.
func (l *Ledger) Buffers(ctx context.Context, now time.Time) ([]Buffer, error) {
	return l.sum(ctx, now, `SELECT state, count(*), sum(size), min(entered_at) FROM ingest_batches WHERE decision <> 'discarded' GROUP BY state`)
}

// Held is Buffers for batches whose files still exist; it leaves out published batches that were
// collected. So it is quick, however many batches have ever come.
func (l *Ledger) Held(ctx context.Context, now time.Time) ([]Buffer, error) {
	return l.sum(ctx, now, `
		SELECT state, count(*), sum(size), min(entered_at) FROM ingest_batches
			WHERE state IN ('received', 'pre-split', 'post-split', 'quarantined') AND decision <> 'discarded' GROUP BY state
		UNION ALL
		SELECT state, count(*), sum(size), min(entered_at) FROM ingest_batches`+uncollected+` GROUP BY state`)
}

// sum returns the sums of all states, counting the batches that the query selects.
func (l *Ledger) sum(ctx context.Context, now time.Time, query string) ([]Buffer, error) {
	sums := make(map[wire.State]Buffer)
	err := db.Each(ctx, l.db, func(rows *sql.Rows) error {
		var b Buffer
		var oldest time.Time
		err := rows.Scan(&b.State, &b.Batches, &b.Bytes, db.At(&oldest))
		b.Oldest = max(now.Sub(oldest), 0).Round(time.Millisecond).Seconds()
		sums[b.State] = b
		return err
	}, query)
	if err != nil {
		return nil, err
	}
	list := make([]Buffer, len(states))
	for n, s := range states {
		list[n] = sums[s]
		list[n].State = s
	}
	return list, nil
}
