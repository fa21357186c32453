// Package assign keeps the assignments: which robot collects which host, now and at any earlier
// time.
//
// Each change makes a new generation, numbered from 1. The rows (host, robot, from, to) are kept
// for ever. Each also says when the robot had stopped visiting the host. So a batch is judged by
// the time at which its pages were fetched, however late it comes.
//
// Hosts of one group go to one robot. A group is the hosts of one IP address, as far as the address
// is known, so that no two robots visit one server at once. Operators and the planner may give a
// host to several robots on purpose (Replication); these share the host's interval.
//
// An assignment is a lease. A host that was taken from a robot waits in other robots' lists until
// the first robot has surely stopped visiting it; see hold.
//
// A host that is accepted and has no robot waits. Every transaction ends by giving the waiting
// hosts to the robots that are expected to finish them first. Without robots the hosts go on
// waiting.
//
// # Copies
//
// Verdicts compares the copies that several robots have collected of one host, and finds robots
// whose pages differ from their peers' by more than time explains (paper 001, 4.1.1).
//
// Pages change, so two copies may differ because the robots came at different times. But if the
// peers got the same page before and after a robot's visit, and the robot got another one in
// between, then the robot was served something else. A page therefore counts for a visit only if
// peers got equal digests before and after it. A page that changes more often than it is visited
// counts for nobody, and neither does a page that returns to an earlier content.
//
// If two robots differ, nobody can tell which of them is right; both are shown. Among three or
// more, a robot is blamed for a page if more peers are against it than with it.
package assign

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"sheaf/internal/db"
)

// ErrUnknownHost says that there is no such host.
var ErrUnknownHost = errors.New("no such host is known; sheaf host ls lists them")

// Invalid says which of the caller's values is wrong.
type Invalid struct{ Err error }

func (e Invalid) Error() string { return e.Err.Error() }

// Unwrap returns e.Err, for errors.Is and errors.As.
func (e Invalid) Unwrap() error { return e.Err }

// Assignments keeps the assignments in the control database. It may be used by many goroutines
// and by many processes at once. A change is durable when its method returns.
type Assignments struct {
	db    *sql.DB
	lease time.Duration         // of a robot; 0: without end
	now   func() time.Time      // the clock by which leases end
	loads atomic.Pointer[loads] // as the last change left them; nil: not known
}

// New returns the assignments in d, which internal/db has opened. lease is how long a robot may go
// on without the manager; 0: without end. now is the clock by which leases and holds end, the same
// for all processes; nil: the machine's.
func New(d *sql.DB, lease time.Duration, now func() time.Time) *Assignments {
	if now == nil {
		now = time.Now
	}
	return &Assignments{db: d, lease: lease, now: now}
}

// Now returns the time by which leases and holds end.
func (a *Assignments) Now() time.Time { return a.now() }

// Change runs f in a transaction. Before it commits, it gives waiting hosts to robots, adjusts the
// robots of hosts that are to have several, and stamps the changed lists with the new generation.
// An error of f or of one of these steps undoes everything.
func (a *Assignments) Change(ctx context.Context, f func(*Tx) error) error {
	var t *Tx
	err := db.Transact(ctx, a.db, nil, func(tx *sql.Tx) error {
		t = &Tx{db: a.db, tx: tx, lease: a.lease, now: a.now, touched: map[string]bool{}, held: map[string]bool{}, loads: a.loads.Load()}
		if err := f(t); err != nil {
			return err
		}
		if err := t.analyze(ctx); err != nil {
			return err
		}
		if err := errors.Join(t.assignWaiting(ctx), t.replicate(ctx)); err != nil {
			return fmt.Errorf("assign hosts: %w", err)
		}
		return errors.Join(t.publish(ctx), t.analyze(ctx))
	})
	if err == nil {
		a.loads.Store(t.loadsAfter())
	}
	return err
}

// Tx is one transaction on hosts and assignments. All its changes make one generation; a
// transaction that changes no assignment makes none. Use it in one goroutine.
type Tx struct {
	db         *sql.DB
	tx         *sql.Tx
	generation int64           // 0 before the first change
	touched    map[string]bool // robots whose list this transaction changes

	lease    time.Duration // of a robot; 0: without end
	now      func() time.Time
	held     map[string]bool // robots with new holds
	disowned []string        // robots whose holds are to be separated from their names

	loads   *loads // before this transaction or, once fresh is set, after its changes; nil: not known
	fresh   bool   // loads includes this transaction's changes
	removed bool   // a robot in touched has lost a host that loads still counts

	changed int64 // rows changed since the last ANALYZE
}

// QueryContext queries within the transaction, so that a Tx is a db.Queryer.
func (t *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return t.tx.QueryContext(ctx, query, args...)
}

// QueryRowContext queries one row within the transaction.
func (t *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return t.tx.QueryRowContext(ctx, query, args...)
}

// ExecContext executes a statement within the transaction, so that a Tx is a db.Execer.
func (t *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	res, err := t.tx.ExecContext(ctx, query, args...)
	if err == nil {
		n, _ := res.RowsAffected() // both drivers know it
		t.changed += n
	}
	return res, err
}

// Exec executes a statement and returns the number of rows that it changed.
func (t *Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	return db.Exec(ctx, t, query, args...)
}

// analyze updates the database's statistics after many changes.
func (t *Tx) analyze(ctx context.Context) error {
	const many = 1000
	if t.changed < many {
		return nil
	}
	done, err := db.Analyze(ctx, t.db, t.tx, t.changed, "hosts", "seeds", "assignments")
	if done {
		t.changed = 0
	}
	return err
}

// Generation returns the number of the generation that this transaction makes.
func (t *Tx) Generation(ctx context.Context) (int64, error) {
	if t.generation != 0 {
		return t.generation, nil
	}
	err := t.tx.QueryRowContext(ctx, `UPDATE generation SET number = number + 1 RETURNING number`).Scan(&t.generation)
	return t.generation, err
}

// Touch notes that the lists of the robots have changed.
func (t *Tx) Touch(robots ...string) {
	for _, r := range robots {
		t.touched[r] = true
	}
}

// publish stamps the changed lists with the generation, and settles the holds.
func (t *Tx) publish(ctx context.Context) error {
	if len(t.touched) == 0 {
		return nil
	}
	g, err := t.Generation(ctx)
	if err != nil {
		return err
	}
	for robot := range t.touched {
		if _, err := t.Exec(ctx, `UPDATE robots SET list_generation = ? WHERE name = ?`, g, robot); err != nil {
			return err
		}
	}
	return t.settleHolds(ctx)
}

// RobotsOf returns the robots that have the host, by name.
func RobotsOf(ctx context.Context, q db.Queryer, host string) ([]string, error) {
	return db.Column[string](ctx, q, `SELECT robot FROM assignments WHERE host = ? AND to_generation IS NULL ORDER BY robot`, host)
}
