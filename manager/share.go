package manager

import "slices"

// share lets a robot that has just come, and has nothing, take groups over from
// those with the most hosts, until taking one more would leave the giver with
// fewer hosts than the newcomer. The groups then wait, and settle gives them to
// the robot with the fewest hosts, which the newcomer is. Robots that have hosts
// already keep them: who comes back after a pause does not set others' work in motion.
func (e *edit) share(newcomer string) error {
	loads, err := e.loads()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(loads, func(l *load) bool { return l.robot == newcomer })
	if i < 0 || loads[i].hosts > 0 {
		return nil
	}
	mine := loads[i]
	givers := slices.Delete(loads, i, i+1)
	held := map[string][]group{}
	for len(givers) > 0 {
		giver := slices.MaxFunc(givers, func(a, b *load) int { return int(a.hosts - b.hosts) })
		if _, ok := held[giver.robot]; !ok {
			if held[giver.robot], err = e.held(giver.robot); err != nil {
				return err
			}
		}
		groups := held[giver.robot]
		fits := slices.IndexFunc(groups, func(g group) bool { return mine.hosts+g.hosts <= giver.hosts-g.hosts })
		if fits < 0 {
			return nil
		}
		g := groups[fits]
		held[giver.robot] = slices.Delete(groups, fits, fits+1)
		if err := e.releaseGroup(g); err != nil {
			return err
		}
		mine.hosts += g.hosts
		giver.hosts -= g.hosts
	}
	return nil
}

// held gives a robot's groups, the large ones first.
func (e *edit) held(robot string) ([]group, error) {
	rows, err := e.tx.QueryContext(e.ctx, `
		SELECT h.grp, COUNT(*), SUM(COALESCE(h.weight, (SELECT typical FROM plans)) / h.parts), SUM(CASE WHEN h.copies > 1 OR h.parts > 1 THEN 1 ELSE 0 END), MIN(a.robot)
		FROM assignments a JOIN hosts h ON h.name = a.host
		WHERE a.robot = ? AND a.to_generation IS NULL AND a.slot = 0 GROUP BY h.grp ORDER BY COUNT(*) DESC, h.grp`, robot)
	if err != nil {
		return nil, err
	}
	return scanGroups(rows)
}

// releaseGroup takes a group's hosts from whoever has them; they wait for another robot.
func (e *edit) releaseGroup(g group) error {
	hosts, err := column[string](e.ctx, e.tx, `SELECT name FROM hosts WHERE grp = ?`, g.name)
	if err != nil {
		return err
	}
	for _, host := range hosts {
		robots, err := e.robotsOf(host)
		if err != nil {
			return err
		}
		if len(robots) == 0 {
			continue // refused, or waiting already
		}
		if err := e.take(host); err != nil {
			return err
		}
		if _, err := e.exec(`UPDATE hosts SET waiting = 1 WHERE name = ?`, host); err != nil {
			return err
		}
	}
	return nil
}
