package assign

import (
	"context"
	"slices"

	"sheaf/internal/db"
)

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
