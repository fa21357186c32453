package manager

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// ErrFenced says that another planner has begun since this one did: it has changed nothing.
var ErrFenced = errors.New("fenced by a planner with a higher token")

const (
	leasePlan = "rebalance" // the planner's lease
	dryRun    = -1          // in place of a token: nothing is written
)

// asPlanner calls f when it is this process's turn to plan. The lease saves work; that of two
// plans never both are made from one assignment is the database's: a planner's token is written
// down before it looks at the assignment, and what it then writes is refused once a higher one is there.
func (m *Manager) asPlanner(ctx context.Context, f func(ctx context.Context, token int64) error) error {
	err := m.opt.Leases.Do(ctx, leasePlan, func(ctx context.Context, token int64) error {
		if err := m.noteToken(ctx, token); err != nil {
			return fmt.Errorf("balance: %w", err)
		}
		return f(ctx, token)
	})
	if errors.Is(err, ErrFenced) {
		err = errors.Join(err, m.raisePlanner(ctx))
	}
	return err
}

// noteToken writes a planner's token down, or fails with ErrFenced where a higher one is there. It takes its turn among
// those who write, so that no other planner is between its look at the token and the end of what it writes:
// this one would else look at the assignment too soon, and change it too late to be refused.
func (m *Manager) noteToken(ctx context.Context, token int64) error {
	return m.transact(ctx, nil, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE plans SET token = ? WHERE token < ?`, token, token)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, ErrFenced)
		}
		return nil
	})
}

// raisePlanner makes the next tokens higher than the one that is written down: leases may
// begin anew, with another engine or an older backup.
func (m *Manager) raisePlanner(ctx context.Context) error {
	var token int64
	if err := m.db.QueryRowContext(ctx, `SELECT token FROM plans`).Scan(&token); err != nil {
		return fmt.Errorf("balance: %w", err)
	}
	return m.opt.Leases.Raise(ctx, leasePlan, token)
}

// mayPlan fails with ErrFenced unless the token is still the highest.
func mayPlan(ctx context.Context, tx *sql.Tx, token int64) error {
	var highest int64
	if err := tx.QueryRowContext(ctx, `SELECT token FROM plans`).Scan(&highest); err != nil {
		return err
	}
	if highest != token {
		return fmt.Errorf("token %d after %d: %w", token, highest, ErrFenced)
	}
	return nil
}

// keepPlanning makes each day's plan when it is due, until ctx ends. It may have to wait for its
// turn, and nothing else waits with it.
func (m *Manager) keepPlanning(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if plan, err := m.planToday(ctx); err != nil && ctx.Err() == nil {
			m.log.ErrorContext(ctx, "the day's plan failed", "err", err)
		} else if !plan.Made.IsZero() {
			m.log.InfoContext(ctx, "the day's plan is made", "generation", plan.Generation, "moved", plan.Moved, "makespan_ms", plan.Makespan, "lower_bound_ms", plan.Bound, "probes", plan.Probes)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// planToday makes the day's plan if it is due and no other process has made it, nor has so
// long been awaited that it is too late.
func (m *Manager) planToday(ctx context.Context) (plan Plan, err error) {
	if due, err := m.planDue(ctx, time.Now()); err != nil || !due {
		return plan, err
	}
	err = m.asPlanner(ctx, func(ctx context.Context, token int64) error {
		due, err := m.planDue(ctx, time.Now())
		if err != nil || !due {
			return err
		}
		plan, err = m.plan(ctx, token)
		return err
	})
	return plan, err
}
