package levelling

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"sheaf/internal/db"
)

// ErrFenced says that another planner has begun since this one began. The transaction that failed
// changed nothing.
var ErrFenced = errors.New("fenced by a planner with a higher token")

const (
	leasePlan = "rebalance" // the planner's lease
	dryRun    = -1          // in place of a token: the planner writes nothing
)

// asPlanner calls f when it is this process's turn to plan. The lease only saves work. The database
// makes sure that no two plans are made from one assignment: a planner writes its token down before
// it reads the assignment, and its later writes fail if a higher token is there by then.
func (l *Leveller) asPlanner(ctx context.Context, f func(ctx context.Context, token int64) error) error {
	err := l.opt.Leases.Do(ctx, leasePlan, func(ctx context.Context, token int64) error {
		if err := l.noteToken(ctx, token); err != nil {
			return fmt.Errorf("balance: %w", err)
		}
		return f(ctx, token)
	})
	if errors.Is(err, ErrFenced) {
		err = errors.Join(err, l.raiseTokens(ctx))
	}
	return err
}

// noteToken writes a planner's token down, or fails with ErrFenced if a higher one is there. It is
// a writing transaction, so it waits while another planner checks its token (checkToken) and
// writes. Otherwise this planner could read the assignment just before the other one changes it.
func (l *Leveller) noteToken(ctx context.Context, token int64) error {
	return db.Transact(ctx, l.db, nil, func(tx *sql.Tx) error {
		return db.Change(ctx, tx, ErrFenced, `UPDATE plans SET token = ? WHERE token < ?`, token, token)
	})
}

// raiseTokens makes the next tokens higher than the token in the database. Tokens may have started
// again, after a change of the database engine or a restore from a backup.
func (l *Leveller) raiseTokens(ctx context.Context) error {
	var token int64
	if err := l.db.QueryRowContext(ctx, `SELECT token FROM plans`).Scan(&token); err != nil {
		return fmt.Errorf("balance: %w", err)
	}
	return l.opt.Leases.Raise(ctx, leasePlan, token)
}

// checkToken fails with ErrFenced unless the token is still the highest.
func checkToken(ctx context.Context, q db.Queryer, token int64) error {
	var highest int64
	if err := q.QueryRowContext(ctx, `SELECT token FROM plans`).Scan(&highest); err != nil {
		return err
	}
	if highest != token {
		return fmt.Errorf("token %d after %d: %w", token, highest, ErrFenced)
	}
	return nil
}
