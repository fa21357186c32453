package roster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
)

// maxPause is the longest time between two calls of Lapse for which the manager counts as listening
// without a break.
const maxPause = 5 * time.Minute

// maxJump is how far this machine's clock may jump between two calls of Lapse before it counts as
// set. Clocks that are kept right are moved by less.
const maxJump = 10 * time.Second

// listening says since when the manager has been listening without a break. A robot counts as
// silent only if the manager could have heard it.
type listening struct {
	since, last time.Time
	steady      time.Time // time since which the clock was not set
}

// note records that the manager is listening now.
func (l *listening) note(now time.Time) {
	if l.since.IsZero() || now.Sub(l.last) > maxPause {
		l.since = now
	}
	// Sub uses the monotonic clock, which is never set. Round(0) strips it.
	if jump := now.Round(0).Sub(l.last.Round(0)) - now.Sub(l.last); !l.last.IsZero() && jump > maxJump {
		l.steady, l.since = now, now
	}
	l.last = now
}

// Lapse ends the holds of robots whose leases are over, and hands on the hosts of robots that have
// been silent for the lease. Call it every minute: a longer break means that the manager was not
// listening. The robots stay subscribed. A robot that is heard of again takes part again, and the
// service accepts its batches of the old list. If no robot at all is heard of, the fault is
// probably the service's, and no hosts are handed on. If this machine's clock was put forward,
// leases only seem to be over, and Lapse does nothing for the time of a lease. The same goes for a
// start after a time in which no robot was heard of: perhaps that time has only passed by the
// clock. If the clock was set back, Lapse corrects the leases, so that they end when they would
// have ended otherwise.
func (r *Roster) Lapse(ctx context.Context, now time.Time) error {
	r.mu.Lock()
	first := r.listening.last.IsZero()
	r.listening.note(now)
	r.mu.Unlock()
	if first {
		if err := r.resumeListening(ctx, now); err != nil {
			return err
		}
	}
	r.mu.Lock()
	since, steady := r.listening.since, r.listening.steady
	r.mu.Unlock()
	lease := r.assignments.Lease()
	if !steady.IsZero() && now.Sub(steady) < max(lease, time.Hour) {
		return nil
	}
	if err := r.assignments.SetBack(ctx, now); err != nil {
		return fmt.Errorf("the clock was set back: %w", err)
	}
	if err := r.assignments.EndOverdue(ctx, now); err != nil || lease <= 0 || now.Sub(since) < lease {
		return err
	}
	limit, over := db.Millis(now.Add(-lease)), db.Millis(now.Add(-wire.LeaseMargin(lease)))
	silent, err := db.Column[string](ctx, r.db, `
		SELECT name FROM robots WHERE subscribed = 1 AND lapsed = 0 AND seen < ? AND leased < ? AND
			EXISTS (SELECT 1 FROM robots o WHERE o.subscribed = 1 AND o.lapsed = 0 AND (o.seen >= ? OR o.leased >= ?))`, limit, over, limit, db.Millis(now))
	if err != nil || len(silent) == 0 {
		return err
	}
	var lapsed []string
	err = r.assignments.Change(ctx, func(t *assign.Tx) error {
		lapsed = lapsed[:0]
		for _, robot := range silent {
			n, err := t.Exec(ctx, `UPDATE robots SET lapsed = ? WHERE name = ? AND subscribed = 1 AND lapsed = 0 AND seen < ? AND leased < ?`, db.Millis(now), robot, limit, over)
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
		r.opt.Log.WarnContext(ctx, "robot is silent; its hosts were handed on", "robot", robot, "after", lease)
	}
	return nil
}

// resumeListening treats the clock as put forward if no robot was heard of for longer than maxPause
// before the first call of Lapse, unless no robot ever was.
func (r *Roster) resumeListening(ctx context.Context, now time.Time) error {
	var heard time.Time
	err := r.db.QueryRowContext(ctx, `SELECT COALESCE(MAX(seen), 0) FROM robots`).Scan(db.At(&heard))
	if err != nil {
		return fmt.Errorf("when robots were heard of: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !heard.IsZero() && now.Sub(heard) > maxPause {
		r.listening.steady = now
	}
	return nil
}

// LeaveSilent gives to other robots the hosts that silent robots were never sent. It does nothing
// until the manager has listened for so long that all robots could call.
func (r *Roster) LeaveSilent(ctx context.Context, now time.Time) error {
	r.mu.Lock()
	since := r.listening.since
	r.mu.Unlock()
	if since.IsZero() || now.Sub(since) < maxPause {
		return nil
	}
	hosts, err := r.assignments.LeaveSilent(ctx, now)
	if err == nil && hosts > 0 {
		r.opt.Log.InfoContext(ctx, "hosts that silent robots were never sent were handed on", "hosts", hosts)
	}
	return err
}

// Dead records an operator's word that a robot has stopped for good, with the reason: its machine
// is switched off, or its disk is gone. This ends the robot's lease. Other robots visit its hosts
// after the usual margin, because it may have made its last visit just before. If the robot is
// heard of again, it takes part again.
func (r *Roster) Dead(ctx context.Context, robot, reason string) error {
	if strings.TrimSpace(reason) == "" || len(reason) > maxReason {
		return assign.Invalid{Err: fmt.Errorf("say why it is sure that the robot visits nothing any more, in at most %d bytes", maxReason)}
	}
	err := r.assignments.Change(ctx, func(t *assign.Tx) error {
		now := db.Millis(r.assignments.Now())
		err := db.Change(ctx, t, fmt.Errorf("robot %s: %w", robot, ErrNoRobot), `UPDATE robots SET lapsed = ?, leased = CASE WHEN leased < ? THEN leased ELSE ? END, dead = ? WHERE name = ?`, now, now, now, reason, robot)
		if err != nil {
			return err
		}
		if err := t.Release(ctx, robot); err != nil {
			return err
		}
		return t.ShortenHolds(ctx, robot, now)
	})
	if err == nil {
		r.opt.Log.WarnContext(ctx, "an operator says that the robot is dead; its hosts were handed on", "robot", robot, "reason", reason)
	}
	return err
}

// maxReason is the limit for an operator's reason, in bytes.
const maxReason = 1000

// resume lets a robot that had lapsed take part again.
func (r *Roster) resume(ctx context.Context, robot string) error {
	err := r.assignments.Change(ctx, func(t *assign.Tx) error {
		n, err := t.Exec(ctx, `UPDATE robots SET lapsed = 0, dead = '' WHERE name = ? AND lapsed <> 0`, robot)
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
