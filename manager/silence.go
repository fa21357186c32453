package manager

import (
	"context"
	"time"

	"sheaf/internal/db"
)

// watch tells how long the manager itself has been listening without a break. A
// robot can only be called silent for as long as somebody would have heard it.
type watch struct{ since, last time.Time }

// hear notes that the manager is there now.
func (w *watch) hear(now time.Time) {
	if w.since.IsZero() || now.Sub(w.last) > 5*sweepEvery {
		w.since = now
	}
	w.last = now
}

// lapse hands on the hosts of robots that have not been heard of for the lease. The robot
// stays subscribed: heard of again, it takes part again, and what it collected under
// its old list is taken as ever. Where no other robot is heard of either, the fault is
// on this side, or there is nobody to hand to: nothing is done.
func (m *Manager) lapse(ctx context.Context, w *watch, now time.Time) (lapsed []string, err error) {
	lease := m.opt.Balance.Lease
	if lease <= 0 || now.Sub(w.since) < lease {
		return nil, nil
	}
	limit := db.Millis(now.Add(-lease))
	silent, err := column[string](ctx, m.db, `
		SELECT name FROM robots WHERE subscribed = 1 AND lapsed = 0 AND seen < ? AND
			EXISTS (SELECT 1 FROM robots o WHERE o.subscribed = 1 AND o.lapsed = 0 AND o.seen >= ?)`, limit, limit)
	if err != nil || len(silent) == 0 {
		return nil, err
	}
	err = m.edit(ctx, func(e *edit) error {
		lapsed = lapsed[:0]
		for _, robot := range silent {
			n, err := e.exec(`UPDATE robots SET lapsed = ? WHERE name = ? AND subscribed = 1 AND lapsed = 0 AND seen < ?`, db.Millis(now), robot, limit)
			if err != nil {
				return err
			}
			if n == 0 {
				continue // it was heard of just now
			}
			if err := e.release(robot); err != nil {
				return err
			}
			lapsed = append(lapsed, robot)
		}
		return nil
	})
	for _, robot := range lapsed {
		m.log.WarnContext(ctx, "robot is silent; its hosts were handed on", "robot", robot, "lease", lease)
	}
	return lapsed, err
}

// heard lets a robot take part again that had been silent for too long.
func (m *Manager) heard(ctx context.Context, robot string) error {
	err := m.edit(ctx, func(e *edit) error {
		n, err := e.exec(`UPDATE robots SET lapsed = 0 WHERE name = ? AND lapsed <> 0`, robot)
		if err != nil || n == 0 {
			return err
		}
		return e.share(robot)
	})
	if err == nil {
		m.log.InfoContext(ctx, "robot is heard of again", "robot", robot)
	}
	return err
}
