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
	if err := h.readWork(ctx, l.db, filter.robots); err != nil {
		return d, err
	}
	if h.groups, err = s.groupsOnly(s.cost); err != nil {
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
