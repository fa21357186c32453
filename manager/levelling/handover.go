package levelling

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"sheaf/internal/db"
	"sheaf/manager/assign"
	"sheaf/manager/balance"
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
	fresh := db.Millis(now.Add(-freshFor))
	idle, err := db.Column[string](ctx, l.db, `
		SELECT b.robot FROM heartbeats b JOIN robots r ON r.name = b.robot
		WHERE b.phase = 'idle' AND b.at >= ? AND b.robot <> ? AND r.subscribed = 1 AND r.lapsed = 0 ORDER BY b.robot`, fresh, robot)
	if err != nil || len(idle) == 0 && len(l.pending.of(robot)) == 0 {
		return 0, err
	}
	shipments := l.pending.take(robot) // what does not pass now is worked out anew: old decisions do harm
	coming, err := comingTo(ctx, l.db, idle)
	if err != nil {
		return 0, err
	}
	if len(idle) > 0 {
		if moved, err = l.shareBegun(ctx, robot, idle, coming); err != nil || moved > 0 {
			return moved, err
		}
	}
	fed, err := l.feed(ctx, robot, idle, coming)
	if err != nil {
		return 0, err
	}
	return l.carryOut(ctx, robot, append(fed, shipments...))
}

// feed chooses groups of a robot's hosts that idle robots are to get.
func (l *Leveller) feed(ctx context.Context, robot string, idle []string, coming coming) ([]shipment, error) {
	if len(idle) == 0 {
		return nil, nil
	}
	var waiting bool
	err := l.db.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM assignments a LEFT JOIN progress d ON d.robot = a.robot AND d.host = a.host
		WHERE a.robot = ? AND a.to_generation IS NULL AND d.host IS NULL)`, robot).Scan(&waiting)
	if err != nil || !waiting {
		return nil, err
	}
	filter := movable(append([]string{robot}, idle...))
	s, err := l.snapshot(ctx, filter)
	if err != nil {
		return nil, err
	}
	giver, ok := s.robot(robot)
	if !ok || !slices.Contains(s.at, giver) {
		return nil, nil
	}
	h := &handover{snap: s, giver: giver}
	if h.work, err = l.workOf(ctx, s, filter.robots); err != nil {
		return nil, err
	}
	if h.groups, err = s.groups(s.cost); err != nil {
		return nil, fmt.Errorf("balance: %w", err)
	}
	h.to = slices.Clone(h.groups.from)
	h.feed(idle, coming)
	return h.shipments(), nil
}

// handover decides which hosts one robot, the giver, hands on.
type handover struct {
	snap   *snapshot
	giver  int
	groups grouping
	to     balance.Plan // by group
	work   work
}

// shipments returns the giver's groups that are to have another robot.
func (h *handover) shipments() (list []shipment) {
	for n, to := range h.to {
		if h.groups.from[n] == h.giver && to != h.giver {
			list = append(list, shipment{to: h.snap.robots[to], hosts: h.snap.names(h.groups.hosts[n])})
		}
	}
	return list
}

// feed gives idle robots some of the giver's groups. Of what these robots have, only hosts that are
// on their way to them count.
func (h *handover) feed(idle []string, coming coming) {
	for _, robot := range idle {
		taker, ok := h.snap.robot(robot)
		if !ok {
			continue
		}
		night := balance.Night{Waiting: make([][]int, len(h.snap.robots)), Busy: slices.Clone(h.work.busy), Pace: h.work.pace}
		night.Busy[taker] = 0
		for n, i := range h.to {
			comes := h.groups.from[n] != taker || slices.ContainsFunc(h.groups.hosts[n], func(j int) bool { return coming[robot][h.snap.hosts[j]] })
			if i == h.giver || i == taker && comes {
				night.Waiting[i] = append(night.Waiting[i], n)
			}
		}
		for _, t := range balance.Take(h.groups.costs, night, taker) {
			if t.From == h.giver {
				h.to[t.Host] = taker
			}
		}
	}
}

// coming has, by robot, hosts that are on their way to robots that were idle when they were last
// heard of: hosts that they have not begun, and got since. What else such a robot has not begun it
// cannot visit now, such as a host that it does not reach.
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

// carryOut moves groups of a robot's hosts, unless the robot has begun one of the group meanwhile.
// A group that is in the list twice goes by the first. It returns how many hosts it has moved.
func (l *Leveller) carryOut(ctx context.Context, robot string, list []shipment) (moved int, err error) {
	if len(list) == 0 {
		return 0, nil
	}
	err = l.assignments.Change(ctx, func(t *assign.Tx) (err error) {
		var transfers []assign.Transfer
		sent := map[string]bool{} // by a host of the group
		for _, s := range list {
			begun, err := anyBegun(ctx, t, s.hosts, robot)
			if err != nil {
				return err
			}
			if !begun && !sent[s.hosts[0]] {
				transfers = append(transfers, assign.Transfer{Hosts: s.hosts, From: robot, To: s.to})
				sent[s.hosts[0]] = true
			}
		}
		moved, err = t.Move(ctx, transfers...)
		return err
	})
	if err == nil && moved > 0 {
		l.opt.Log.InfoContext(ctx, "hosts handed on that were not begun", "robot", robot, "hosts", moved)
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
