package levelling

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"sheaf/internal/db"
	"sheaf/manager/assign"
)

// worthwhile is the number of the giver's heartbeats that the rest of its work must take. A host
// that moves is not visited for about two heartbeats, until its old robot has stopped and its new
// robot begins.
const worthwhile = 6

// begunGroup has a robot's hosts of one group that the robot has begun and not finished.
type begunGroup struct {
	hosts []string
	left  int64 // URLs
}

// shareBegun chooses the begun hosts of a robot that go to idle robots. It chooses some only if the
// robot cannot visit its hosts as often as their intervals allow, because it lacks free workers or
// room on its line. Otherwise no host would end sooner at another robot. Afterwards all these
// robots have about as many URLs left.
func (l *Leveller) shareBegun(ctx context.Context, d *decision, idle []string, coming coming) error {
	var left, crowded, every int64
	var rate float64
	err := l.db.QueryRowContext(ctx, `SELECT left_urls, rate, crowded, every FROM heartbeats WHERE robot = ?`, d.robot).Scan(&left, &rate, &crowded, &every)
	if err != nil {
		return fmt.Errorf("balance: heartbeat of robot %s: %w", d.robot, err)
	}
	if crowded == 0 || rate <= 0 || every <= 0 || float64(left)/rate*1000 < worthwhile*float64(every) {
		return nil
	}
	free := slices.DeleteFunc(slices.Clone(idle), func(robot string) bool { return len(coming[robot]) > 0 })
	if len(free) == 0 {
		return nil
	}
	groups, err := l.begunGroups(ctx, d.robot)
	if err != nil {
		return err
	}
	to := deal(groups, left, len(free))
	for n, g := range groups {
		if to[n] >= 0 {
			d.waiting = crowded
			d.transfers = append(d.transfers, assign.Transfer{Hosts: g.hosts, From: d.robot, To: free[to[n]]})
			d.urls = append(d.urls, float64(g.left))
		}
	}
	return nil
}

// begunGroups returns the groups that a robot has begun, those with the most URLs left first. It
// leaves out groups in which a host is pinned or several robots have a host.
func (l *Leveller) begunGroups(ctx context.Context, robot string) (groups []begunGroup, err error) {
	at := map[string]int{}
	err = db.Each(ctx, l.db, func(rows *sql.Rows) error {
		var host, group string
		var left int64
		if err := rows.Scan(&host, &group, &left); err != nil {
			return err
		}
		n, ok := at[group]
		if !ok {
			n = len(groups)
			at[group] = n
			groups = append(groups, begunGroup{})
		}
		groups[n].hosts, groups[n].left = append(groups[n].hosts, host), groups[n].left+left
		return nil
	}, `
		SELECT h.name, h.grp, COALESCE(d.left_urls, 0)
		FROM assignments a CROSS JOIN hosts h LEFT JOIN progress d ON d.robot = a.robot AND d.host = h.name
		WHERE h.name = a.host AND a.robot = ? AND a.to_generation IS NULL AND a.slot = 0
			AND h.grp NOT IN (SELECT s.grp FROM hosts s WHERE s.copies > 1 OR s.parts > 1) AND h.grp NOT IN (SELECT p.grp FROM hosts p WHERE p.pinned <> '')
		ORDER BY h.name`, robot)
	if err != nil {
		return nil, fmt.Errorf("balance: hosts begun by robot %s: %w", robot, err)
	}
	groups = slices.DeleteFunc(groups, func(g begunGroup) bool { return g.left == 0 })
	slices.SortStableFunc(groups, func(a, b begunGroup) int { return int(b.left - a.left) })
	return groups, nil
}

// deal returns the taker of each group, or -1 if the group stays. total is the number of URLs that
// the giver has left, in all its groups. Each group, the largest first, goes to the robot with the
// fewest URLs.
func deal(groups []begunGroup, total int64, takers int) []int {
	loads := make([]int64, takers+1) // the last is the giver
	loads[takers] = total
	for _, g := range groups {
		loads[takers] -= g.left
	}
	to := make([]int, len(groups))
	for n, g := range groups {
		least := takers
		for i, load := range loads {
			if load < loads[least] {
				least = i
			}
		}
		loads[least] += g.left
		if to[n] = least; least == takers {
			to[n] = -1
		}
	}
	return to
}
