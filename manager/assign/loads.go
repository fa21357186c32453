package assign

import (
	"context"
	"database/sql"
	"slices"

	"sheaf/internal/db"
)

// with returns the robot's expected time if it had the group, too.
func (l *Load) with(g group) float64 { return l.MS + g.weight*l.Slow }

// sameRobot reports whether two loads are of one robot with the same properties.
func (l *Load) sameRobot(o *Load) bool {
	return l.Robot == o.Robot && l.Slow == o.Slow && l.Shares == o.Shares
}

// currentLoads returns the loads of the robots that take part and are heard of, by name. The
// caller adds to them what it gives to the robots.
func (t *Tx) currentLoads(ctx context.Context) ([]*Load, error) {
	switch {
	case t.removed || !t.fresh && t.generation != 0:
		t.loads = nil // this transaction has changed what was known
		return sumLoads(ctx, t)
	case t.fresh && t.loads != nil:
		return slices.Clone(t.loads.robots), nil
	}
	t.fresh = true
	now := &loads{}
	err := t.tx.QueryRowContext(ctx, `SELECT number, (SELECT made FROM plans) FROM generation`).Scan(&now.generation, &now.planned)
	if err != nil {
		return nil, err
	}
	robots, err := db.List(ctx, t, func(rows *sql.Rows, l **Load) error {
		*l = new(Load)
		return rows.Scan(&(*l).Robot, &(*l).Slow, &(*l).Shares)
	}, `SELECT name, slow, shares FROM robots WHERE subscribed = 1 AND lapsed = 0 ORDER BY name`)
	if err != nil {
		return nil, err
	}
	known := t.loads
	t.loads = now
	if known == nil || known.generation != now.generation || known.planned != now.planned || !slices.EqualFunc(known.robots, robots, (*Load).sameRobot) {
		now.robots, err = sumLoads(ctx, t)
		return slices.Clone(now.robots), err
	}
	now.robots = make([]*Load, len(known.robots)) // copies: this transaction may fail
	for i, l := range known.robots {
		c := *l
		now.robots[i] = &c
	}
	return slices.Clone(now.robots), nil
}

// loadsAfter returns the loads after the transaction, or nil if they are not known.
func (t *Tx) loadsAfter() *loads {
	switch {
	case t.removed || t.loads == nil:
		return nil
	case t.generation == 0:
		return t.loads
	case t.loads.generation != t.generation-1:
		return nil // another process has made generations since
	}
	return &loads{t.generation, t.loads.planned, t.loads.robots}
}

// Loads returns the loads of the robots that take part and are heard of, by name.
func (a *Assignments) Loads(ctx context.Context) (robots []*Load, err error) {
	err = db.ReadOnly(ctx, a.db, func(tx *sql.Tx) error {
		robots, err = sumLoads(ctx, tx)
		return err
	})
	return robots, err
}

// sumLoads reads every assignment to sum up the loads.
func sumLoads(ctx context.Context, q db.Queryer) ([]*Load, error) {
	return db.List(ctx, q, func(rows *sql.Rows, l **Load) error {
		*l = new(Load)
		return rows.Scan(&(*l).Robot, &(*l).Hosts, &(*l).Slow, &(*l).Shares, &(*l).MS)
	}, `
		SELECT r.name, COUNT(a.host), r.slow, r.shares, SUM(CASE WHEN h.name IS NULL THEN 0.0 ELSE COALESCE(h.weight, (SELECT typical FROM plans)) / h.parts * r.slow END)
		FROM robots r LEFT JOIN assignments a ON a.robot = r.name AND a.to_generation IS NULL LEFT JOIN hosts h ON h.name = a.host
		WHERE r.subscribed = 1 AND r.lapsed = 0 GROUP BY r.name, r.slow, r.shares ORDER BY r.name`)
}
