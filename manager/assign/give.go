package assign

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"sheaf/internal/db"
)

// Leave ends a robot's participation and releases its hosts; see Release.
func (t *Tx) Leave(ctx context.Context, robot string) error {
	if _, err := t.Exec(ctx, `UPDATE robots SET subscribed = 0, lapsed = 0 WHERE name = ?`, robot); err != nil {
		return err
	}
	return t.Release(ctx, robot)
}

// Release takes all hosts from a robot. The hosts that it had in slot 0 wait for another robot.
func (t *Tx) Release(ctx context.Context, robot string) error {
	n, err := t.Exec(ctx, `
		UPDATE hosts SET waiting = 1
		WHERE name IN (SELECT host FROM assignments WHERE robot = ? AND to_generation IS NULL AND slot = 0)`, robot)
	if err != nil {
		return err
	}
	replicated, err := t.Exec(ctx, `
		UPDATE hosts SET review = 1 WHERE (copies > 1 OR parts > 1)
		AND name IN (SELECT host FROM assignments WHERE robot = ? AND to_generation IS NULL)`, robot)
	if err != nil || n+replicated == 0 {
		return err
	}
	return t.take(ctx, `a.robot = ?`, robot)
}

// take ends the assignments that fulfil where, an SQL condition on assignments a. A robot loses a
// host only through take.
func (t *Tx) take(ctx context.Context, where string, args ...any) error {
	if err := t.hold(ctx, where, args...); err != nil {
		return err
	}
	g, err := t.Generation(ctx)
	if err != nil {
		return err
	}
	t.removed = true
	_, err = t.Exec(ctx, `UPDATE assignments AS a SET to_generation = ? WHERE a.to_generation IS NULL AND `+where, append([]any{g}, args...)...)
	return err
}

// Unassign takes a host from all its robots. It does not make the host wait.
func (t *Tx) Unassign(ctx context.Context, host string) error {
	robots, err := RobotsOf(ctx, t, host)
	if err != nil || len(robots) == 0 {
		return err
	}
	if err := t.take(ctx, `a.host = ?`, host); err != nil {
		return err
	}
	return t.review(ctx, host)
}

// Reassign takes a host from all its robots and makes it wait for a new robot.
func (t *Tx) Reassign(ctx context.Context, host string) error {
	if err := t.Unassign(ctx, host); err != nil {
		return err
	}
	_, err := t.Exec(ctx, `UPDATE hosts SET waiting = 1 WHERE name = ?`, host)
	return err
}

// ownerOf is SQL for the robot that has hosts of group g.grp in slot 0, or NULL. It is a subquery,
// because PostgreSQL would answer a join by reading the hosts of all robots for each group: it has
// no statistics on hosts that this transaction has just entered.
const ownerOf = `
	(SELECT MIN(o.robot) FROM (
		SELECT (SELECT MIN(a.robot) FROM assignments a WHERE a.host = h.name AND a.to_generation IS NULL AND a.slot = 0) AS robot
		FROM hosts h WHERE h.grp = g.grp) o)`

// OwnerOf returns the robot that has the hosts of a group in slot 0, or "".
func OwnerOf(ctx context.Context, t *Tx, group string) (robot string, err error) {
	err = t.tx.QueryRowContext(ctx, `SELECT COALESCE(`+ownerOf+`, '') FROM (SELECT CAST(? AS TEXT) AS grp) g`, group).Scan(&robot)
	return robot, err
}

// assignWaiting gives each group of waiting hosts to a robot: to the robot that already has hosts
// of the group, else to the robot that they are pinned to, else to the robot that is expected to
// finish the group first. Silent robots do not count for the last rule. Costly groups go first, so
// that small groups can even out the loads. Without robots the hosts go on waiting.
func (t *Tx) assignWaiting(ctx context.Context) error {
	groups, err := waitingGroups(ctx, t)
	if err != nil || len(groups) == 0 {
		return err
	}
	if slices.ContainsFunc(groups, func(g group) bool { return g.pin != "" }) {
		if err := t.pinWaiting(ctx); err != nil {
			return err
		}
	}
	robots, err := t.currentLoads(ctx)
	if err != nil || len(robots) == 0 {
		return err
	}
	takers := living(robots)
	g, err := t.Generation(ctx)
	if err != nil {
		return err
	}
	var given [][]any // rows of group and robot
	for _, group := range groups {
		to := slices.MinFunc(takers, func(a, b *Load) int { return cmp.Compare(a.with(group), b.with(group)) })
		if i := slices.IndexFunc(robots, func(r *Load) bool { return r.Robot == cmp.Or(group.owner, group.pin) }); i >= 0 {
			to = robots[i]
		}
		if group.replicated > 0 {
			if err := t.clearOtherSlots(ctx, group.name, to.Robot); err != nil {
				return err
			}
		}
		given = append(given, []any{group.name, to.Robot})
		to.MS = to.with(group)
		to.Hosts += group.hosts
		t.Touch(to.Robot)
	}
	for some := range slices.Chunk(given, db.RowsAtOnce) {
		if _, err := t.Exec(ctx, `
			WITH given (grp, robot) AS (VALUES `+db.Tuples(len(some), 2)+`)
			INSERT INTO assignments (host, robot, from_generation)
			SELECT h.name, t.robot, CAST(? AS BIGINT) FROM given t CROSS JOIN hosts h WHERE h.waiting = 1 AND h.grp = t.grp
			ON CONFLICT (host, robot, from_generation) DO UPDATE SET to_generation = NULL, slot = 0`, append(slices.Concat(some...), g)...); err != nil {
			return err
		}
	}
	_, err = t.Exec(ctx, `UPDATE hosts SET waiting = 0 WHERE waiting = 1`)
	return err
}

// clearOtherSlots ends a robot's copies and shares of a group's waiting hosts, because it is
// about to have these hosts in slot 0.
func (t *Tx) clearOtherSlots(ctx context.Context, group, robot string) error {
	err := t.take(ctx, `a.robot = ? AND a.host IN (SELECT name FROM hosts WHERE waiting = 1 AND grp = ?)`, robot, group)
	if err != nil {
		return err
	}
	_, err = t.Exec(ctx, `UPDATE hosts SET review = 1 WHERE waiting = 1 AND grp = ? AND (copies > 1 OR parts > 1)`, group)
	return err
}

// group sums up hosts that go to one robot.
type group struct {
	name       string
	hosts      int64
	weight     float64 // ms that the median robot takes for the pages, measured or estimated
	replicated int64   // number of hosts that are to have several robots
	owner      string  // the robot that has hosts of the group in slot 0; "": none
	pin        string  // the robot that a host of the group is pinned to; "": none
}

// waitingGroups returns the groups of hosts that wait, the costliest first.
func waitingGroups(ctx context.Context, t *Tx) ([]group, error) {
	return db.List(ctx, t, scanGroup, `
		SELECT g.*, COALESCE(`+ownerOf+`, ''), COALESCE((SELECT MIN(p.pinned) FROM hosts p WHERE p.grp = g.grp AND p.pinned <> ''), '') FROM (
			SELECT grp, COUNT(*), SUM(COALESCE(weight, (SELECT typical FROM plans)) / parts) AS ms, SUM(CASE WHEN copies > 1 OR parts > 1 THEN 1 ELSE 0 END)
			FROM hosts WHERE waiting = 1 GROUP BY grp) g
		ORDER BY g.ms DESC, g.grp`)
}

func scanGroup(rows *sql.Rows, g *group) error {
	return rows.Scan(&g.name, &g.hosts, &g.weight, &g.replicated, &g.owner, &g.pin)
}

// Share gives hosts of other robots to a robot that has just come: first the hosts that are pinned
// to it. If it then has no host, Share takes groups from the robots with the most hosts, until one
// more group would leave the giver with fewer hosts than the newcomer. These groups wait until the
// end of the transaction, which gives them to the robot that can finish them first: the newcomer. A
// robot that already has hosts gets no such groups, so a robot that returns after a pause does not
// disturb the others.
func (t *Tx) Share(ctx context.Context, newcomer string) error {
	if err := t.recall(ctx, newcomer); err != nil {
		return err
	}
	loads, err := t.currentLoads(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(loads, func(l *Load) bool { return l.Robot == newcomer })
	if i < 0 || loads[i].Hosts > 0 {
		return nil
	}
	for k, l := range loads { // copies, because the hosts are not given yet
		c := *l
		loads[k] = &c
	}
	mine := loads[i]
	givers := slices.Delete(loads, i, i+1)
	held := map[string][]group{}
	for len(givers) > 0 {
		giver := slices.MaxFunc(givers, func(a, b *Load) int { return int(a.Hosts - b.Hosts) })
		if _, ok := held[giver.Robot]; !ok {
			if held[giver.Robot], err = groupsOf(ctx, t, giver.Robot); err != nil {
				return err
			}
		}
		groups := held[giver.Robot]
		fits := slices.IndexFunc(groups, func(g group) bool { return mine.Hosts+g.hosts <= giver.Hosts-g.hosts })
		if fits < 0 {
			return nil
		}
		g := groups[fits]
		held[giver.Robot] = slices.Delete(groups, fits, fits+1)
		if err := t.reassignGroup(ctx, g.name); err != nil {
			return err
		}
		mine.Hosts += g.hosts
		giver.Hosts -= g.hosts
	}
	return nil
}

// groupsOf returns the groups that a robot has in slot 0, those with the most hosts first. It
// leaves out pinned groups.
func groupsOf(ctx context.Context, t *Tx, robot string) ([]group, error) {
	return db.List(ctx, t, scanGroup, `
		SELECT h.grp, COUNT(*), SUM(COALESCE(h.weight, (SELECT typical FROM plans)) / h.parts), SUM(CASE WHEN h.copies > 1 OR h.parts > 1 THEN 1 ELSE 0 END), MIN(a.robot), ''
		FROM assignments a JOIN hosts h ON h.name = a.host
		WHERE a.robot = ? AND a.to_generation IS NULL AND a.slot = 0 AND h.grp NOT IN (SELECT p.grp FROM hosts p WHERE p.pinned <> '') GROUP BY h.grp ORDER BY COUNT(*) DESC, h.grp`, robot)
}

// reassignGroup makes the assigned hosts of a group wait for another robot.
func (t *Tx) reassignGroup(ctx context.Context, group string) error {
	hosts, err := db.Column[string](ctx, t, `SELECT name FROM hosts WHERE grp = ?`, group)
	if err != nil {
		return err
	}
	for _, host := range hosts {
		robots, err := RobotsOf(ctx, t, host)
		if err != nil {
			return err
		}
		if len(robots) == 0 {
			continue // refused, or waiting already
		}
		if err := t.Reassign(ctx, host); err != nil {
			return err
		}
	}
	return nil
}
