package manager

import (
	"context"
	"time"

	"sheaf/internal/db"
	"sheaf/manager/balance"
)

// Balance says when and how the hosts are shared out anew. Its zero value does none of it.
type Balance struct {
	Daily  bool           // plan once a day
	At     time.Duration  // after midnight, when that is
	Zone   *time.Location // of At, and of nights and hours in the costs; nil: UTC
	During bool           // move hosts that have not been begun while the robots work
	Lease  time.Duration  // of silence, after which a robot's hosts are handed on; 0: never
	Probes int            // pairs that each robot is asked to measure after a plan
	Split  bool           // share the URLs of a host that does not fit into Window out among several robots
	Window time.Duration  // how long a night is, to tell which hosts are too large for one robot; 0: not known
}

const (
	sweepEvery = time.Minute // between two looks at silent robots and backlogs, and at the time of day
	lateBy     = time.Hour   // a plan that is later than this waits for the next day: the robots are at work by then
)

// keep does what is due until ctx ends: leases, levelling, comparing. The day's plan is keepPlanning's.
func (m *Manager) keep(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	var here watch
	var judged time.Time
	trigger := balance.NewTrigger()
	for {
		now := time.Now()
		here.hear(now)
		m.sweep(ctx, &here, trigger, now)
		if now.Sub(judged) >= judgedEvery {
			judged = now
			if err := m.JudgeCopies(ctx); err != nil && ctx.Err() == nil {
				m.log.ErrorContext(ctx, "comparing the robots' copies failed", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// sweep looks once at everything. What fails is logged and done again with the next sweep.
func (m *Manager) sweep(ctx context.Context, here *watch, trigger *balance.Trigger, now time.Time) {
	if _, err := m.lapse(ctx, here, now); err != nil && ctx.Err() == nil {
		m.log.ErrorContext(ctx, "looking for silent robots failed", "err", err)
	}
	if m.opt.Balance.During {
		if err := m.level(ctx, trigger, now); err != nil && ctx.Err() == nil {
			m.log.ErrorContext(ctx, "levelling failed", "err", err)
		}
	}
}

// planDue reports whether today's plan is to be made now.
func (m *Manager) planDue(ctx context.Context, now time.Time) (bool, error) {
	if !m.opt.Balance.Daily {
		return false, nil
	}
	y, month, day := now.In(m.opt.Balance.Zone).Date()
	at := time.Date(y, month, day, 0, 0, 0, 0, m.opt.Balance.Zone).Add(m.opt.Balance.At)
	if now.Before(at) || now.Sub(at) > lateBy {
		return false, nil
	}
	var made int64
	if err := m.db.QueryRowContext(ctx, `SELECT made FROM plans`).Scan(&made); err != nil {
		return false, err
	}
	return db.Time(made).Before(at), nil
}
