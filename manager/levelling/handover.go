package levelling

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"sheaf/internal/db"
	"sheaf/manager/assign"
)

// freshFor is how old a heartbeat may be for a robot's hosts to be moved by what it says.
const freshFor = 20 * time.Minute

// movable returns the hosts that may go from some of the robots to others: those of which none of
// the robots has begun a host of the same group. It excludes groups with a host that several
// robots have, because these share the work already.
func movable(robots []string) hostFilter {
	return hostFilter{where: `h.grp IN (
		SELECT g.grp FROM assignments ga CROSS JOIN hosts g LEFT JOIN progress d ON d.robot = ga.robot AND d.host = g.name
		WHERE g.name = ga.host AND ga.to_generation IS NULL AND ga.robot IN ` + db.Tuple(len(robots)) + `
		GROUP BY g.grp HAVING COUNT(d.host) = 0)
		AND h.grp NOT IN (SELECT s.grp FROM hosts s WHERE s.copies > 1 OR s.parts > 1)`, args: db.Args(robots), robots: robots}
}

// HandOver takes hosts that a robot has not begun from it, if other robots are idle or Level has
// decided so, and returns how many. Call it with the robot's heartbeat: the heartbeat says which
// hosts were begun, and its answer tells the robot that its list has changed.
func (l *Leveller) HandOver(ctx context.Context, robot string, now time.Time) (moved int, err error) {
	if l.making.Load() { // a plan takes longer than a robot waits
		return 0, nil
	}
	l.planning.Lock()
	defer l.planning.Unlock()
	shipments := l.shipments[robot]
	fresh := db.Millis(now.Add(-freshFor))
	idle, err := db.Column[string](ctx, l.db, `
		SELECT b.robot FROM heartbeats b JOIN robots r ON r.name = b.robot
		WHERE b.phase = 'idle' AND b.at >= ? AND b.robot <> ? AND r.subscribed = 1 AND r.lapsed = 0 ORDER BY b.robot`, fresh, robot)
	if err != nil || len(shipments)+len(idle) == 0 {
		return 0, err
	}
	delete(l.shipments, robot)
	coming, err := comingTo(ctx, l.db, idle)
	if err != nil {
		return 0, err
	}
	if len(idle) > 0 {
		if moved, err = l.shareBegun(ctx, robot, idle, coming); err != nil || moved > 0 {
			return moved, err
		}
	}
	var waiting bool
	err = l.db.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM assignments a LEFT JOIN progress d ON d.robot = a.robot AND d.host = a.host
		WHERE a.robot = ? AND a.to_generation IS NULL AND d.host IS NULL)`, robot).Scan(&waiting)
	if err != nil || !waiting {
		return 0, err
	}
	filter := movable(append([]string{robot}, idle...))
	for _, s := range shipments {
		filter.robots = append(filter.robots, s.to)
	}
	s, err := l.snapshot(ctx, filter)
	if err != nil {
		return 0, err
	}
	giver, ok := s.robot(robot)
	if !ok || !slices.Contains(s.at, giver) {
		return 0, nil
	}
	h := &handover{snap: s, giver: giver}
	if h.work, err = l.workOf(ctx, s, filter.robots); err != nil {
		return 0, err
	}
	if h.groups, err = s.groups(s.cost); err != nil {
		return 0, fmt.Errorf("balance: %w", err)
	}
	h.to = slices.Clone(h.groups.from)
	h.feed(idle, coming)
	if len(shipments) > 0 {
		if err := l.ship(ctx, h, shipments); err != nil {
			return 0, err
		}
	}
	return l.carryOut(ctx, h)
}

// coming has, for each idle robot, the hosts that it was given after its last heartbeat and has not
// begun. Other hosts that an idle robot has not begun do not count: it cannot visit them now, for
// example because it does not reach them.
type coming map[string]map[string]bool

// comingTo returns the hosts that are on their way to idle robots.
func comingTo(ctx context.Context, q db.Queryer, idle []string) (coming, error) {
	to := coming{}
	if len(idle) == 0 {
		return to, nil
	}
	err := db.Each(ctx, q, func(rows *sql.Rows) error {
		var robot, host string
		if err := rows.Scan(&robot, &host); err != nil {
			return err
		}
		if to[robot] == nil {
			to[robot] = map[string]bool{}
		}
		to[robot][host] = true
		return nil
	}, `
		SELECT a.robot, a.host FROM heartbeats b CROSS JOIN assignments a LEFT JOIN progress d ON d.robot = a.robot AND d.host = a.host
		WHERE b.robot IN `+db.Tuple(len(idle))+` AND a.robot = b.robot AND a.to_generation IS NULL AND a.from_generation > b.generation AND d.host IS NULL`,
		db.Args(idle)...)
	if err != nil {
		return nil, fmt.Errorf("balance: hosts on their way: %w", err)
	}
	return to, nil
}

// carryOut moves the groups that are to have another robot, unless the robot has begun them
// meanwhile. It returns how many hosts it has moved.
func (l *Leveller) carryOut(ctx context.Context, h *handover) (moved int, err error) {
	err = l.assignments.Change(ctx, func(t *assign.Tx) (err error) {
		var transfers []assign.Transfer
		for n, to := range h.to {
			from := h.groups.from[n]
			if from < 0 || from == to {
				continue
			}
			hosts := h.snap.names(h.groups.hosts[n])
			begun, err := anyBegun(ctx, t, hosts, h.snap.robots[from])
			if err != nil {
				return err
			}
			if !begun {
				transfers = append(transfers, assign.Transfer{Hosts: hosts, From: h.snap.robots[from], To: h.snap.robots[to]})
			}
		}
		moved, err = t.Move(ctx, transfers...)
		return err
	})
	if err == nil && moved > 0 {
		l.opt.Log.InfoContext(ctx, "hosts handed on that were not begun", "robot", h.snap.robots[h.giver], "hosts", moved)
	}
	return moved, err
}

func anyBegun(ctx context.Context, q db.Queryer, hosts []string, robot string) (begun bool, err error) {
	for _, host := range hosts {
		err := q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM progress WHERE robot = ? AND host = ?)`, robot, host).Scan(&begun)
		if err != nil || begun {
			return begun, err
		}
	}
	return false, nil
}
