// Package levelling decides from the costs of hosts which robot collects which host, and moves the
// hosts accordingly.
//
// Once a day it makes a plan for all hosts (Rebalance). While the robots work, it hands on hosts
// that were not begun: to idle robots, and along the robots' tree if backlogs differ (paper 000,
// 3.3). It takes hosts from a robot only when the robot's heartbeat has just said which hosts it
// has begun. At any other time the robot might begin a host that is being moved, and would fetch
// the host's pages for nothing. Hosts that were begun go to idle robots only from a robot that
// cannot visit them as often as it may.
//
// Package balance makes the decisions, without side effects. This package reads its input from the
// database, in a snapshot, and writes the results.
//
// # Costs
//
// Book keeps what hosts cost robots, from the robots' logs: requests, bytes and transfer time by
// the hour. The planner works from these.
package levelling

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/lease"
	"sheaf/internal/settings"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
	"sheaf/manager/balance"
)

// Settings say when and how hosts are shared out among robots. The zero value does none of it.
type Settings struct {
	At     string        `mapstructure:"at" want:"a time of day, such as 01:00, or nothing"` // when the day's plan is made; empty: none is
	During bool          `mapstructure:"during"`                                             // while the robots work, hand on hosts that have not been begun
	Lease  time.Duration `mapstructure:"lease"`                                              // how long a robot may go on without hearing from the manager before its hosts are handed on; 0: without end
	Window time.Duration `mapstructure:"window" want:"at least 0s"`                          // length of a night of collecting, which tells the hosts that are too large for one robot; 0: not known

	Brief  bool           `mapstructure:"-"` // allows a Lease that is too short for operators; for tests
	Zone   *time.Location `mapstructure:"-"` // of At, and of nights and hours of the week; manager.New makes it UTC if it is nil
	Probes int            `mapstructure:"-"` // number of distances that each robot measures after a plan
	Split  bool           `mapstructure:"-"` // split hosts that do not fit into Window among several robots
}

// Check checks what the tags of the settings do not say.
func (s *Settings) Check(is *settings.Checks) {
	const minLease = 10 * time.Minute // two heartbeats
	is.Require(s.Lease == 0 || (s.Lease >= minLease || s.Brief) && s.Lease <= wire.MaxLease, "balance.lease", s.Lease, fmt.Sprintf("want 0, or from %v to %v", minLease, wire.MaxLease))
}

// Options are a leveller's settings, and what it needs of others.
type Options struct {
	Settings
	Leases lease.Locker // lets one process plan at a time; nil: by the database
	Log    *slog.Logger // nil: discards
}

// shipment is work that a robot is to pass to a neighbour in the tree.
type shipment struct {
	to   string
	urls float64
}

// robotTree is a tree of robots, with the time when it was made.
type robotTree struct {
	robots []string
	tree   balance.Tree
	made   time.Time
}

// Leveller assigns hosts to robots. Many goroutines may use it at once, but only one calls Level.
type Leveller struct {
	db          *sql.DB
	assignments *assign.Assignments
	opt         Options
	trigger     balance.Trigger

	planning  sync.Mutex            // held while a plan or a hand-over is made; guards shipments
	shipments map[string][]shipment // by robot: what it is to pass to its neighbours
	making    atomic.Bool           // a plan is being made

	tree atomic.Pointer[robotTree] // nil: none was made yet
}

// New returns a leveller of the assignments in d, which internal/db has opened.
func New(d *sql.DB, assignments *assign.Assignments, opt Options) *Leveller {
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	if opt.Leases == nil {
		opt.Leases = lease.NewDB(d, nil, lease.Options{Log: opt.Log})
	}
	return &Leveller{db: d, assignments: assignments, opt: opt}
}

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
func (l *Leveller) asPlanner(ctx context.Context, f func(ctx context.Context, token int64) (Plan, error)) (plan Plan, err error) {
	err = l.opt.Leases.Do(ctx, leasePlan, func(ctx context.Context, token int64) (err error) {
		if err := l.noteToken(ctx, token); err != nil {
			return fmt.Errorf("balance: %w", err)
		}
		plan, err = f(ctx, token)
		return err
	})
	if errors.Is(err, ErrFenced) {
		err = errors.Join(err, l.raiseTokens(ctx))
	}
	return plan, err
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
