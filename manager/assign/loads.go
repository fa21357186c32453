package assign

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"sheaf/internal/db"
)

// Load is the work of one robot.
type Load struct {
	Robot  string
	Hosts  int64
	MS     float64 // expected transfer time of a night, in ms
	Slow   float64 // ms that the robot takes where the median robot takes 1 ms
	Shares bool    // its program can collect a share of a host's URLs
	Silent bool    // nothing is heard of it now
}

// loads are the robots' known loads at one generation and one plan. They are kept from one
// transaction to the next, because summing them up reads every assignment. The load of a robot that
// lost a host is not kept. If another process has made a generation or a plan since, the next
// transaction sums up anew.
type loads struct {
	generation, planned int64
	robots              []*Load // must not be changed
}

// with returns the time that the robot is expected to take if it gets the group.
func (l *Load) with(g group) float64 { return l.MS + g.weight*l.Slow }

// sameRobot reports whether two loads are of one robot with the same properties.
func (l *Load) sameRobot(o *Load) bool {
	return l.Robot == o.Robot && l.Slow == o.Slow && l.Shares == o.Shares
}

// currentLoads returns the loads of the robots that take part and have not lapsed, by name. The
// caller must add to these loads each group that it gives to a robot.
func (t *Tx) currentLoads(ctx context.Context) ([]*Load, error) {
	if !t.fresh || t.removed {
		if t.removed {
			t.loads = t.loads.without(t.touched)
		}
		now, err := loadsNow(ctx, t, t.now(), t.loads, t.generation)
		if err != nil {
			return nil, err
		}
		t.loads, t.fresh, t.removed = now, true, false
	}
	return slices.Clone(t.loads.robots), nil
}

// loadsAfter returns the loads after the transaction, or nil if they are not known.
func (t *Tx) loadsAfter() *loads {
	switch {
	case t.loads == nil || t.generation == 0:
		return t.loads
	case t.loads.generation != t.generation-1 && t.loads.generation != t.generation:
		return nil // another process has made generations since
	}
	after := t.loads
	if !t.fresh || t.removed {
		after = after.without(t.touched)
	}
	return &loads{t.generation, after.planned, after.robots}
}

// without returns the loads of all robots but the given ones.
func (l *loads) without(robots map[string]bool) *loads {
	if l == nil {
		return nil
	}
	others := slices.DeleteFunc(slices.Clone(l.robots), func(r *Load) bool { return robots[r.Robot] })
	return &loads{l.generation, l.planned, others}
}

// Loads returns the loads of the robots that take part and have not lapsed, by name. The caller
// must not change them.
func (a *Assignments) Loads(ctx context.Context) (robots []*Load, err error) {
	err = db.ReadOnly(ctx, a.db, func(tx *sql.Tx) error {
		known := a.loads.Load()
		now, err := loadsNow(ctx, tx, a.now(), known, 0)
		if err == nil {
			robots = now.robots
			a.loads.CompareAndSwap(known, now)
		}
		return err
	})
	return robots, err
}

// loadsNow returns the loads as q sees them. at is the time. made is the generation that q's
// transaction has made, or 0. known are earlier loads, or nil. Robots whose properties are the same
// keep these loads if the plan is the same too and no other transaction has made a generation
// since. The hosts of other robots are summed up.
func loadsNow(ctx context.Context, q db.Queryer, at time.Time, known *loads, made int64) (*loads, error) {
	now := &loads{}
	err := db.Each(ctx, q, func(rows *sql.Rows) error { return rows.Scan(&now.generation, &now.planned) },
		`SELECT number, (SELECT made FROM plans) FROM generation`)
	if err != nil {
		return nil, err
	}
	if now.robots, err = emptyLoads(ctx, q, at); err != nil {
		return nil, err
	}
	holds := known != nil && known.planned == now.planned && (known.generation == now.generation || made != 0 && known.generation == made-1)
	var unknown []string
	for i, l := range now.robots {
		k := -1
		if holds {
			k = slices.IndexFunc(known.robots, l.sameRobot)
		}
		if k < 0 {
			unknown = append(unknown, l.Robot)
			continue
		}
		c := *known.robots[k] // a copy: this transaction may fail
		c.Silent = l.Silent
		now.robots[i] = &c
	}
	return now, sumLoads(ctx, q, now.robots, unknown)
}

// emptyLoads returns the robots that take part and have not lapsed, by name, with no hosts counted.
func emptyLoads(ctx context.Context, q db.Queryer, now time.Time) ([]*Load, error) {
	return db.List(ctx, q, func(rows *sql.Rows, l **Load) error {
		*l = new(Load)
		var h Heard
		err := rows.Scan(append([]any{&(*l).Robot, &(*l).Slow, &(*l).Shares}, h.Scan()...)...)
		(*l).Silent = !h.Silent(now).IsZero()
		return err
	}, `SELECT name, slow, shares, `+HeardColumns+` FROM robots WHERE subscribed = 1 AND lapsed = 0 ORDER BY name`)
}

// living returns the loads of the robots that are not silent. If all robots are silent, it returns
// all loads: otherwise the first robot to be heard of again would get everything.
func living(robots []*Load) []*Load {
	heard := slices.DeleteFunc(slices.Clone(robots), func(l *Load) bool { return l.Silent })
	if len(heard) == 0 {
		return robots
	}
	return heard
}

// Planned sets the loads after a plan that this transaction has just completed. ms is the expected
// time of each robot's hosts, without waiting hosts. A host that came or went during the planning
// is not in ms, so the robot's load is wrong by that host until the next plan. Summing up all loads
// instead would block other writers for seconds with a million hosts.
func (t *Tx) Planned(ctx context.Context, ms map[string]float64) error {
	now := &loads{}
	err := t.QueryRowContext(ctx, `SELECT number, (SELECT made FROM plans) FROM generation`).Scan(&now.generation, &now.planned)
	if err != nil {
		return err
	}
	if now.robots, err = emptyLoads(ctx, t, t.now()); err != nil {
		return err
	}
	hosts, err := db.Pairs[string, int64](ctx, t, `SELECT r.name, (SELECT COUNT(*) FROM assignments a WHERE a.robot = r.name AND a.to_generation IS NULL) FROM robots r`)
	if err != nil {
		return err
	}
	var unplanned []string // robots that came during the planning
	for _, l := range now.robots {
		planned, ok := ms[l.Robot]
		if l.Hosts, l.MS = hosts[l.Robot], planned; !ok {
			unplanned = append(unplanned, l.Robot)
		}
	}
	t.loads, t.fresh, t.removed = now, true, false
	return sumLoads(ctx, t, now.robots, unplanned)
}

// sumLoads fills in the loads of the robots named in some, from their assignments.
func sumLoads(ctx context.Context, q db.Queryer, robots []*Load, some []string) error {
	for names := range slices.Chunk(some, db.RowsAtOnce) {
		err := db.Each(ctx, q, func(rows *sql.Rows) error {
			var robot string
			var hosts int64
			var ms float64
			if err := rows.Scan(&robot, &hosts, &ms); err != nil {
				return err
			}
			l := robots[slices.IndexFunc(robots, func(l *Load) bool { return l.Robot == robot })]
			l.Hosts, l.MS = hosts, ms*l.Slow
			return nil
		}, `
			SELECT a.robot, COUNT(*), SUM(COALESCE(h.weight, (SELECT typical FROM plans)) / h.parts)
			FROM assignments a JOIN hosts h ON h.name = a.host
			WHERE a.to_generation IS NULL AND a.robot IN `+db.Tuple(len(names))+` GROUP BY a.robot`, db.Args(names)...)
		if err != nil {
			return err
		}
	}
	return nil
}
