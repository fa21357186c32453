package manager

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/internal/loop"
	"sheaf/internal/wire"
	"sheaf/manager/hosts"
)

const (
	sweepEvery   = time.Minute      // for silent robots, new watched hosts, uneven backlogs and a plan that is due
	compareEvery = 10 * time.Minute // for comparing the robots' copies
)

// Run does the regular work until ctx ends: it refreshes addresses, enters watched hosts, hands
// hosts on as Options.Balance says, compares copies, and makes the day's plan. It logs failures and
// tries again the next time.
func (m *Manager) Run(ctx context.Context) error {
	failed := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			m.opt.Log.ErrorContext(ctx, what+" failed", "err", err)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return loop.Every(ctx, sweepEvery, func(ctx context.Context) error {
			_, err := m.Hosts.RefreshAddresses(ctx, time.Now().Add(-hosts.RefreshAfter))
			failed("looking up addresses", err)
			_, err = m.Hosts.EnterWatched(ctx)
			failed("entering hosts that consumers watch", err)
			return nil
		}, nil)
	})
	g.Go(func() error {
		silence := sweepEvery
		if lease := m.opt.Balance.Lease; lease > 0 {
			silence = min(silence, max(wire.LeaseMargin(lease), time.Millisecond))
		}
		return loop.Every(ctx, silence, func(ctx context.Context) error {
			failed("looking for silent robots", m.Roster.Lapse(ctx, m.Assignments.Now()))
			failed("taking from silent robots what they were never sent", m.Roster.LeaveSilent(ctx, m.Assignments.Now()))
			failed("forgetting old hand-overs", m.Assignments.DropHandovers(ctx, ""))
			if m.opt.Balance.During {
				failed("levelling", m.Levelling.Level(ctx, time.Now()))
			}
			return nil
		}, nil)
	})
	g.Go(func() error {
		return loop.Every(ctx, compareEvery, m.Copies.Update, func(err error) { failed("comparing the robots' copies", err) })
	})
	g.Go(func() error { // in a goroutine of its own, because it may have to wait for its turn
		return loop.Every(ctx, sweepEvery, func(ctx context.Context) error {
			plan, err := m.Levelling.PlanToday(ctx)
			if err == nil && !plan.Made.IsZero() {
				m.opt.Log.InfoContext(ctx, "the day's plan is made", "generation", plan.Generation, "moved", plan.Moved,
					"makespan_ms", plan.Makespan, "lower_bound_ms", plan.Bound, "probes", plan.Probes)
			}
			return err
		}, func(err error) { failed("the day's plan", err) })
	})
	return g.Wait()
}
