package levelling

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/loop"
)

// ErrGivenUp says that a plan was given up before it was ready. The last plan stays valid. Hosts
// that had already moved are not moved back.
var ErrGivenUp = errors.New("the plan was given up, and the last one stays")

// ErrNoPlanning is Cancel's error if no plan is being made.
var ErrNoPlanning = errors.New("no plan is being made now")

var errCancelled = errors.New("an operator has cancelled it")

const (
	planLimit = 10 * time.Minute // for one plan; a plan for a million hosts and a thousand robots takes one minute
	beatEvery = time.Second
	beatLost  = time.Minute // a planner without a beat for so long has died
)

// Course is the progress of the plan that is being made now, and the end of the last attempt.
type Course struct {
	Step    string    `json:"step,omitempty"`    // the planner's present step; empty: no plan is being made
	Began   time.Time `json:"began,omitzero"`    // when that plan was begun
	GivenUp time.Time `json:"given_up,omitzero"` // when the last attempt was given up; zero: it was not
	Reason  string    `json:"reason,omitempty"`  // why
}

// Steps of a plan, in this order.
const (
	stepRead    = "1 of 5: reading what was measured"
	stepChoose  = "2 of 5: looking for the robots that suit each host"
	stepImprove = "3 of 5: looking for few moves that let all robots end together"
	stepExplain = "4 of 5: working out what is worth measuring"
	stepWrite   = "5 of 5: giving hosts to other robots" // followed by "n of m" moves

	StepCancelled = "cancelled: ending"
)

// course records a plan's progress in the database.
type course struct {
	l     *Leveller
	token int64 // dryRun: nothing is recorded
}

// step records the planner's present step. If the plan is to be given up, it returns the reason.
func (c course) step(ctx context.Context, what string) error {
	if err := context.Cause(ctx); err != nil || c.token == dryRun {
		return err
	}
	c.l.opt.Log.DebugContext(ctx, "planning", "step", what)
	_, err := c.l.db.ExecContext(ctx, `UPDATE plans SET step = ?, beat = ? WHERE token = ?`, what, db.Millis(time.Now()), c.token)
	return err
}

// run makes a plan, with a context that ends after planLimit or when an operator cancels the plan.
// It records the beginning, the end, and why a plan was given up.
func (c course) run(ctx context.Context) (Plan, error) {
	limited, end := context.WithTimeoutCause(ctx, planLimit, fmt.Errorf("it was not ready after %v", planLimit))
	defer end()
	planning, cancel := context.WithCancelCause(limited)
	defer cancel(nil)
	if c.token != dryRun {
		if _, err := c.l.db.ExecContext(ctx, `UPDATE plans SET step = ?, began = ?, beat = ? WHERE token = ?`,
			stepRead, db.Millis(time.Now()), db.Millis(time.Now()), c.token); err != nil {
			return Plan{}, fmt.Errorf("balance: %w", err)
		}
		var watching sync.WaitGroup
		watching.Go(func() { c.watch(planning, cancel) })
		defer watching.Wait()
		defer cancel(nil)
	}
	plan, err := c.l.plan(planning, c)
	switch cause := context.Cause(planning); {
	case err == nil || cause == nil:
	case ctx.Err() != nil:
		err = fmt.Errorf("the plan was interrupted, because nobody waits for it any more or the service ends: %w", cause)
	default:
		err = fmt.Errorf("%w: %w", ErrGivenUp, cause)
	}
	return plan, errors.Join(err, c.note(context.WithoutCancel(ctx), err))
}

// note records how the plan has ended.
func (c course) note(ctx context.Context, err error) error {
	if c.token == dryRun {
		return nil
	}
	at, reason := int64(0), ""
	if err != nil {
		at, reason = db.Millis(time.Now()), err.Error()
	}
	_, err = c.l.db.ExecContext(ctx, `UPDATE plans SET step = '', given_up = ?, reason = ? WHERE token = ?`, at, reason, c.token)
	return err
}

// watch records regularly that the planner is at work, and cancels the plan on an operator's order.
// It returns then, or when ctx ends.
func (c course) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	for more := true; more; more = loop.Pause(ctx, beatEvery) {
		var cancelled int64
		err := c.l.db.QueryRowContext(ctx, `UPDATE plans SET beat = ? WHERE token = ? RETURNING cancelled`, db.Millis(time.Now()), c.token).Scan(&cancelled)
		if err == nil && cancelled == c.token {
			cancel(errCancelled)
			_, err = c.l.db.ExecContext(context.WithoutCancel(ctx), `UPDATE plans SET step = ? WHERE token = ? AND step <> ''`, StepCancelled, c.token)
			if err != nil {
				c.l.opt.Log.WarnContext(ctx, "planning: not noted that the plan is cancelled", "err", err)
			}
			return
		}
	}
}

// Cancel orders the planner, in any process, to give up the plan that is being made. It returns
// ErrNoPlanning if no plan is being made.
func (l *Leveller) Cancel(ctx context.Context) error {
	n, err := db.Exec(ctx, l.db, `UPDATE plans SET cancelled = token WHERE step <> '' AND beat >= ?`, db.Millis(time.Now().Add(-beatLost)))
	if err == nil && n == 0 {
		return ErrNoPlanning
	}
	if err != nil {
		return fmt.Errorf("balance: cancel: %w", err)
	}
	return nil
}

// Course returns the progress of the plan that is being made now, in any process, and the end of
// the last attempt.
func (l *Leveller) Course(ctx context.Context) (c Course, err error) {
	var beat time.Time
	err = l.db.QueryRowContext(ctx, `SELECT step, began, beat, given_up, reason FROM plans`).
		Scan(&c.Step, db.At(&c.Began), db.At(&beat), db.At(&c.GivenUp), &c.Reason)
	if err != nil {
		return c, fmt.Errorf("balance: %w", err)
	}
	switch {
	case c.Step == "":
		c.Began = time.Time{}
	case time.Since(beat) > beatLost:
		c = Course{GivenUp: beat, Reason: "the process that made it has ended"}
	}
	return c, nil
}
