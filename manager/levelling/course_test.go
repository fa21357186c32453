package levelling_test

import (
	"database/sql"
	"errors"
	"testing"

	"sheaf/internal/db/dbtest"
	"sheaf/internal/lease"
	"sheaf/internal/testkit"
	"sheaf/manager/levelling"
)

func newPlannersWithLeases(t *testing.T) *planners {
	return newPlanners(t, dbtest.Source(t), func(d *sql.DB) lease.Locker { return lease.NewDB(d, nil, lease.Options{}) })
}

// Any manager tells how far the plan is that another one makes, and gives it up. Then nothing has
// moved, and operators see why.
func TestPlanIsShownAndCancelled(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p := newPlannersWithLeases(t)
	p.turnCosts()
	planner, other := p.all[0].Levelling, p.all[1].Levelling
	if err := other.Cancel(t.Context()); !errors.Is(err, levelling.ErrNoPlanning) {
		t.Errorf("without a plan: %v", err)
	}
	release := planner.HoldPlanning()
	ended := make(chan error, 1)
	go func() { _, err := planner.Rebalance(t.Context(), false); ended <- err }()
	testkit.Until(t, "the plan is shown", func() bool {
		c, err := other.Course(t.Context())
		testkit.Must(t, err)
		return c.Step != "" && !c.Began.IsZero()
	})
	testkit.Must(t, other.Cancel(t.Context()))
	testkit.Until(t, "the planner knows", func() bool {
		c, err := other.Course(t.Context())
		testkit.Must(t, err)
		return c.Step == levelling.StepCancelled
	})
	release()
	if err := <-ended; !errors.Is(err, levelling.ErrGivenUp) {
		t.Errorf("the planner gets %v", err)
	}
	status, err := other.Status(t.Context())
	testkit.Must(t, err)
	if c := status.Course; c.Step != "" || c.GivenUp.IsZero() || c.Reason == "" || !status.Plan.Made.IsZero() {
		t.Errorf("afterwards: %+v, plan %+v", c, status.Plan)
	}
	if plan, err := planner.Rebalance(t.Context(), false); err != nil || plan.Moved == 0 {
		t.Errorf("the next plan: %+v, %v", plan, err)
	}
	if c, err := other.Course(t.Context()); err != nil || c != (levelling.Course{}) {
		t.Errorf("after that: %+v, %v", c, err)
	}
}

// Many moves are written in several transactions. Together they are the plan.
func TestPlanInSeveralTransactions(t *testing.T) {
	levelling.MoveAtOnce(t, 1)
	p := newPlannersWithLeases(t)
	p.turnCosts()
	plan, err := p.all[0].Levelling.Rebalance(t.Context(), false)
	testkit.Must(t, err)
	if plan.Moved < 2 {
		t.Fatalf("%d hosts move", plan.Moved)
	}
	var at, moved int64
	testkit.Must(t, p.db.QueryRowContext(t.Context(), `SELECT MAX(from_generation), COUNT(*) FROM assignments WHERE from_generation > ?`, plan.Generation).Scan(&at, &moved))
	if moved != int64(plan.Moved) || at != plan.Generation+moved {
		t.Errorf("%d hosts moved, the last in generation %d; the plan moved %d from generation %d on", moved, at, plan.Moved, plan.Generation)
	}
	if again, err := p.all[1].Levelling.Rebalance(t.Context(), false); err != nil || again.Moved != 0 {
		t.Errorf("again: %+v, %v", again, err)
	}
}
