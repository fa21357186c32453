// Package levelling decides who collects which host by what the hosts cost, and carries it out.
//
// Once a day a plan is made for all hosts (Rebalance). While the robots work, hosts that were not
// begun are handed on: to robots that have nothing left, and along the robots' tree where
// backlogs differ (paper 000, 3.3). A robot's hosts are handed on only when its heartbeat has
// just said which hosts it has begun. At any other time it might begin a host that is being
// moved, and two robots would collect it.
//
// The decisions themselves are pure and in package balance. This package reads their input from
// the database, in a snapshot, and writes what comes out.
package levelling

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/lease"
	"sheaf/manager/assign"
	"sheaf/manager/balance"
)

// ErrFenced says that another planner has begun since this one did. Nothing was changed.
var ErrFenced = errors.New("fenced by a planner with a higher token")

// Options say when and how hosts are shared out anew.
type Options struct {
	Daily  bool           // plan once a day
	At     time.Duration  // after midnight, when that is
	Zone   *time.Location // of At, and of nights and hours of the week
	During bool           // hand hosts on while the robots work
	Probes int            // distances that each robot is asked to measure after a plan
	Split  bool           // split hosts that do not fit into Window among several robots
	Window time.Duration  // how long a night is; 0: not known
	Leases lease.Locker   // lets one process plan at a time; nil: by the database
	Log    *slog.Logger   // nil: discards
}

// Leveller shares hosts out. It may be used by many goroutines at once, but Level by one.
type Leveller struct {
	db          *sql.DB
	assignments *assign.Assignments
	opt         Options
	trigger     *balance.Trigger

	planning  sync.Mutex            // held while a plan or a hand-over is made; guards shipments
	shipments map[string][]shipment // by robot: what it is to pass to its neighbours

	tree atomic.Pointer[robotTree] // nil: none was made yet
}

// New returns a leveller of the assignments in d, which internal/db has opened.
func New(d *sql.DB, assignments *assign.Assignments, opt Options) *Leveller {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Zone == nil {
		opt.Zone = time.UTC
	}
	if opt.Leases == nil {
		opt.Leases = lease.NewDB(d, nil, lease.Options{Log: opt.Log})
	}
	return &Leveller{db: d, assignments: assignments, opt: opt, trigger: balance.NewTrigger()}
}

// lateBy is the delay after which a plan waits for the next day, because the robots are at work.
const lateBy = time.Hour

// PlanToday makes the day's plan if it is due. A plan whose Made is zero says that none was made.
// It may have to wait for another process's plan.
func (l *Leveller) PlanToday(ctx context.Context) (plan Plan, err error) {
	if due, err := l.PlanDue(ctx, time.Now()); err != nil || !due {
		return plan, err
	}
	err = l.asPlanner(ctx, func(ctx context.Context, token int64) error {
		due, err := l.PlanDue(ctx, time.Now()) // another process may have made it meanwhile
		if err != nil || !due {
			return err
		}
		plan, err = l.plan(ctx, token)
		return err
	})
	return plan, err
}

// PlanDue reports whether the day's plan is to be made now.
func (l *Leveller) PlanDue(ctx context.Context, now time.Time) (bool, error) {
	if !l.opt.Daily {
		return false, nil
	}
	y, month, day := now.In(l.opt.Zone).Date()
	at := time.Date(y, month, day, 0, 0, 0, 0, l.opt.Zone).Add(l.opt.At)
	if now.Before(at) || now.Sub(at) > lateBy {
		return false, nil
	}
	var made int64
	if err := l.db.QueryRowContext(ctx, `SELECT made FROM plans`).Scan(&made); err != nil {
		return false, err
	}
	return db.Time(made).Before(at), nil
}
