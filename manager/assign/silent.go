package assign

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"sheaf/internal/db"
)

// A robot says how long it is between two of its heartbeats. It is overdue if a heartbeat is late
// by lateness. A robot that does not say the time is overdue after beatsWithin, and one that has
// sent no heartbeat is silent after silentFor.
const (
	beatsWithin = 5 * time.Minute
	lateness    = 30 * time.Second
	silentFor   = 2 * time.Hour
)

// Heard says when a robot that takes part was last heard of.
type Heard struct {
	Seen    time.Time // last request, to the minute
	Beat    time.Time // last heartbeat; zero: none has come
	EveryMS int64     // between two heartbeats; 0: not known
}

// every returns the time between two of the robot's heartbeats.
func (h Heard) every() time.Duration {
	if h.EveryMS == 0 {
		return beatsWithin
	}
	return time.Duration(h.EveryMS) * time.Millisecond
}

// Late returns the time since which the robot's heartbeat is overdue, or the zero time.
func (h Heard) Late(now time.Time) time.Time {
	if due := h.Beat.Add(h.every()); !h.Beat.IsZero() && now.After(due.Add(lateness)) {
		return due
	}
	return time.Time{}
}

// Silent returns the time since which nothing is heard of the robot, or the zero time. A robot that
// has just come back is not silent, though its last heartbeat is old.
func (h Heard) Silent(now time.Time) time.Time {
	if late := h.Late(now); !late.IsZero() && now.Sub(h.Seen) > h.every()+lateness {
		return late
	}
	if h.Beat.IsZero() && !h.Seen.IsZero() && now.Sub(h.Seen) > silentFor {
		return h.Seen
	}
	return time.Time{}
}

// HeardColumns is SQL for the columns of table robots that Heard.Scan reads.
const HeardColumns = `seen, COALESCE((SELECT at FROM heartbeats b WHERE b.robot = robots.name), 0), COALESCE((SELECT every FROM heartbeats b WHERE b.robot = robots.name), 0)`

// Scan returns the destinations for HeardColumns.
func (h *Heard) Scan() []any { return []any{db.At(&h.Seen), db.At(&h.Beat), &h.EveryMS} }

// Silent returns the robots that take part and are silent, by name. If all are silent, it returns
// none, because the fault is probably the service's.
func Silent(ctx context.Context, q db.Queryer, now time.Time) (robots []string, err error) {
	heard := 0
	err = db.Each(ctx, q, func(rows *sql.Rows) error {
		var name string
		var h Heard
		err := rows.Scan(append([]any{&name}, h.Scan()...)...)
		if h.Silent(now).IsZero() {
			heard++
		} else {
			robots = append(robots, name)
		}
		return err
	}, `SELECT name, `+HeardColumns+` FROM robots WHERE subscribed = 1 AND lapsed = 0 ORDER BY name`)
	if heard == 0 {
		robots = nil
	}
	return robots, err
}

// LeaveSilent moves hosts from silent robots to other robots and returns how many. It moves only
// hosts whose group the robot was never sent, because a silent robot may be visiting the rest until
// its lease is over. It leaves hosts that several robots have, and hosts that are pinned to the
// silent robot.
func (a *Assignments) LeaveSilent(ctx context.Context, now time.Time) (hosts int, err error) {
	silent, err := Silent(ctx, a.db, now)
	if err != nil || len(silent) == 0 {
		return 0, err
	}
	if unsent, err := unsentOf(ctx, a.db, silent); err != nil || len(unsent) == 0 { // the usual case
		return 0, err
	}
	err = a.Change(ctx, func(t *Tx) error {
		unsent, err := unsentOf(ctx, t, silent)
		hosts = len(unsent)
		for some := range slices.Chunk(unsent, db.RowsAtOnce) {
			if err := t.take(ctx, `a.host IN `+db.Tuple(len(some)), db.Args(some)...); err != nil {
				return err
			}
			if _, err := t.Exec(ctx, `UPDATE hosts SET waiting = 1 WHERE name IN `+db.Tuple(len(some)), db.Args(some)...); err != nil {
				return err
			}
		}
		return err
	})
	return hosts, err
}

// unsentOf returns hosts of the given robots. It returns a host if the host is not pinned to its
// robot, and if the robot was sent no host of the group and has no replicated host of the group.
func unsentOf(ctx context.Context, q db.Queryer, robots []string) ([]string, error) {
	return db.Column[string](ctx, q, `
		SELECT a.host FROM robots r CROSS JOIN assignments a CROSS JOIN hosts h
		WHERE r.name IN `+db.Tuple(len(robots))+` AND a.robot = r.name AND a.to_generation IS NULL AND a.from_generation > r.given AND h.name = a.host AND h.pinned <> r.name
			AND NOT EXISTS (SELECT 1 FROM hosts g CROSS JOIN assignments o
				WHERE g.grp = h.grp AND o.host = g.name AND o.robot = r.name AND o.to_generation IS NULL
					AND (o.from_generation <= r.given OR g.copies > 1 OR g.parts > 1))`, db.Args(robots)...)
}
