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

// freshFor is the age up to which a heartbeat counts when a robot's hosts are moved.
const freshFor = 20 * time.Minute

// movable selects the hosts that may move between the robots: hosts of groups in which none of the
// robots has begun a host. It excludes groups with a host that several robots have, because these
// share the work already, and groups with a pinned host.
func movable(robots []string) hostFilter {
	return hostFilter{where: `h.grp IN (
		SELECT g.grp FROM assignments ga CROSS JOIN hosts g LEFT JOIN progress d ON d.robot = ga.robot AND d.host = g.name
		WHERE g.name = ga.host AND ga.to_generation IS NULL AND ga.robot IN ` + db.Tuple(len(robots)) + `
		GROUP BY g.grp HAVING COUNT(d.host) = 0)
		AND h.grp NOT IN (SELECT s.grp FROM hosts s WHERE s.copies > 1 OR s.parts > 1) AND h.grp NOT IN (SELECT p.grp FROM hosts p WHERE p.pinned <> '')`, args: db.Args(robots), robots: robots}
}

// decision says what one robot hands on.
type decision struct {
	robot     string
	transfers []assign.Transfer
	urls      []float64 // by transfer
	waiting   int64     // URLs for which the robot has no free worker; 0: the hosts were not begun
}

// HandOver takes hosts from a robot if other robots are idle or Level has planned shipments. It
// returns how many hosts it moved. Call it when the robot's heartbeat has come: the heartbeat says
// which hosts were begun, and its answer tells the robot that its list has changed.
func (l *Leveller) HandOver(ctx context.Context, robot string, now time.Time) (moved int, err error) {
	if l.making.Load() { // making a plan takes longer than a robot waits for its answer
		return 0, nil
	}
	l.planning.Lock()
	defer l.planning.Unlock()
	idle, err := l.idle(ctx, now)
	if err != nil {
		return 0, err
	}
	d, err := l.decide(ctx, robot, l.shipments[robot], idle)
	if err != nil {
		return 0, err
	}
	delete(l.shipments, robot)
	return l.carryOut(ctx, d, now)
}

// idle returns the robots that have nothing left.
func (l *Leveller) idle(ctx context.Context, now time.Time) ([]string, error) {
	return db.Column[string](ctx, l.db, `
		SELECT b.robot FROM heartbeats b JOIN robots r ON r.name = b.robot
		WHERE b.phase = 'idle' AND b.at >= ? AND r.subscribed = 1 AND r.lapsed = 0 ORDER BY b.robot`, db.Millis(now.Add(-freshFor)))
}

// decide returns what a robot is to hand on: to idle robots, and to the neighbours named in
// shipments. It changes nothing.
func (l *Leveller) decide(ctx context.Context, robot string, shipments []shipment, idle []string) (d decision, err error) {
	d.robot = robot
	idle = slices.DeleteFunc(slices.Clone(idle), func(name string) bool { return name == robot })
	if len(shipments)+len(idle) == 0 {
		return d, nil
	}
	coming, err := comingTo(ctx, l.db, idle)
	if err != nil {
		return d, err
	}
	if len(idle) > 0 {
		if err := l.shareBegun(ctx, &d, idle, coming); err != nil || len(d.transfers) > 0 {
			return d, err
		}
	}
	var waiting bool
	err = l.db.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM assignments a LEFT JOIN progress d ON d.robot = a.robot AND d.host = a.host
		WHERE a.robot = ? AND a.to_generation IS NULL AND d.host IS NULL)`, robot).Scan(&waiting)
	if err != nil || !waiting {
		return d, err
	}
	filter := movable(append([]string{robot}, idle...))
	for _, s := range shipments {
		filter.robots = append(filter.robots, s.to)
	}
	s, err := l.snapshot(ctx, filter)
	if err != nil {
		return d, err
	}
	giver, ok := s.robot(robot)
	if !ok || !slices.Contains(s.at, giver) {
		return d, nil
	}
	h := &handover{snap: s, giver: giver}
	if h.work, err = l.workOf(ctx, s, filter.robots); err != nil {
		return d, err
	}
	if h.groups, err = s.groups(s.cost); err != nil {
		return d, fmt.Errorf("balance: %w", err)
	}
	if h.urls, err = l.requests(ctx, h); err != nil {
		return d, err
	}
	h.to = slices.Clone(h.groups.from)
	h.feed(idle, coming)
	if len(shipments) > 0 {
		if err := l.ship(ctx, h, shipments); err != nil {
			return d, err
		}
	}
	for n, to := range h.to {
		if from := h.groups.from[n]; from >= 0 && from != to {
			d.transfers = append(d.transfers, assign.Transfer{Hosts: s.names(h.groups.hosts[n]), From: s.robots[from], To: s.robots[to]})
			d.urls = append(d.urls, h.urls[n])
		}
	}
	return d, nil
}

// coming has the hosts that are on their way to each idle robot: given to it after its last
// heartbeat and not begun. Its other hosts that are not begun do not count: it cannot visit them
// now, for example because it does not reach them.
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

// carryOut moves the hosts that a robot is to hand on and returns how many. If the decision was
// about hosts that were not begun, it skips groups that the robot has begun meanwhile.
func (l *Leveller) carryOut(ctx context.Context, d decision, now time.Time) (moved int, err error) {
	if len(d.transfers) == 0 {
		return 0, nil
	}
	err = l.assignments.Change(ctx, func(t *assign.Tx) (err error) {
		passed := decision{robot: d.robot}
		for n, transfer := range d.transfers {
			if d.waiting == 0 {
				if begun, err := anyBegun(ctx, t, transfer.Hosts, d.robot); err != nil || begun {
					if err != nil {
						return err
					}
					continue
				}
			}
			passed.transfers, passed.urls = append(passed.transfers, transfer), append(passed.urls, d.urls[n])
		}
		if moved, err = t.Move(ctx, passed.transfers...); err != nil || moved == 0 {
			return err
		}
		return noteLevelling(ctx, t, Levelling{now, passed.passing()})
	})
	if err == nil && moved > 0 {
		l.opt.Log.InfoContext(ctx, "hosts handed on", "robot", d.robot, "hosts", moved, "begun", d.waiting > 0, "waiting", d.waiting)
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
