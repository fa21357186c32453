package roster

import (
	"context"
	"time"

	"sheaf/internal/db"
	"sheaf/manager/assign"
)

// maxPause is the longest time between two calls of Lapse for which the manager counts as
// listening.
const maxPause = 5 * time.Minute

// listening says since when the manager has been listening without a break. A robot is silent
// only if the manager could have heard it.
type listening struct{ since, last time.Time }

// note notes that the manager is listening now.
func (l *listening) note(now time.Time) {
	if l.since.IsZero() || now.Sub(l.last) > maxPause {
		l.since = now
	}
	l.last = now
}

// Lapse hands on the hosts of robots that have been silent for the lease. Call it every minute: a
// longer break means that the manager was not listening. The robots stay subscribed; a robot that
// is heard of again takes part again, and its batches of the old list are taken. If no robot at
// all is heard of, the fault is probably the service's, and nothing is done.
func (r *Roster) Lapse(ctx context.Context, now time.Time) error {
	r.mu.Lock()
	r.listening.note(now)
	since := r.listening.since
	r.mu.Unlock()
	lease := r.opt.Lease
	if lease <= 0 || now.Sub(since) < lease {
		return nil
	}
	limit := db.Millis(now.Add(-lease))
	silent, err := db.Column[string](ctx, r.db, `
		SELECT name FROM robots WHERE subscribed = 1 AND lapsed = 0 AND seen < ? AND
			EXISTS (SELECT 1 FROM robots o WHERE o.subscribed = 1 AND o.lapsed = 0 AND o.seen >= ?)`, limit, limit)
	if err != nil || len(silent) == 0 {
		return err
	}
	var lapsed []string
	err = r.assignments.Change(ctx, func(t *assign.Tx) error {
		lapsed = lapsed[:0]
		for _, robot := range silent {
			n, err := t.Exec(ctx, `UPDATE robots SET lapsed = ? WHERE name = ? AND subscribed = 1 AND lapsed = 0 AND seen < ?`, db.Millis(now), robot, limit)
			if err != nil {
				return err
			}
			if n == 0 {
				continue // it was heard of just now
			}
			if err := t.Release(ctx, robot); err != nil {
				return err
			}
			lapsed = append(lapsed, robot)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, robot := range lapsed {
		r.opt.Log.WarnContext(ctx, "robot is silent; its hosts were handed on", "robot", robot, "lease", lease)
	}
	return nil
}

// resume lets a robot that had lapsed take part again.
func (r *Roster) resume(ctx context.Context, robot string) error {
	err := r.assignments.Change(ctx, func(t *assign.Tx) error {
		n, err := t.Exec(ctx, `UPDATE robots SET lapsed = 0 WHERE name = ? AND lapsed <> 0`, robot)
		if err != nil || n == 0 {
			return err
		}
		return t.Share(ctx, robot)
	})
	if err == nil {
		r.opt.Log.InfoContext(ctx, "robot is heard of again", "robot", robot)
	}
	return err
}
