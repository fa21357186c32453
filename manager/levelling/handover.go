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

// movable is an SQL condition on hosts h. It holds if a certain robot, or an idle one, has the
// host and has begun no host of its group. It excludes groups with a host that several robots
// have, because these share the work already. The parameters are the robot and the least time of
// a fresh heartbeat.
const movable = `h.grp IN (
	SELECT g.grp FROM hosts g JOIN assignments ga ON ga.host = g.name AND ga.to_generation IS NULL
		LEFT JOIN progress d ON d.robot = ga.robot AND d.host = g.name
	WHERE ga.robot = ? OR ga.robot IN (SELECT robot FROM heartbeats WHERE phase = 'idle' AND at >= ?)
	GROUP BY g.grp HAVING COUNT(d.host) = 0)
	AND h.grp NOT IN (SELECT s.grp FROM hosts s WHERE s.copies > 1 OR s.parts > 1)`

// handover decides which hosts one robot, the giver, hands on.
type handover struct {
	snap   *snapshot
	giver  int
	groups grouping
	to     balance.Plan // by group
	work   work
}

// HandOver takes hosts that a robot has not begun from it, if other robots are idle or Level has
// decided so, and returns how many. Call it with the robot's heartbeat: the heartbeat says which
// hosts were begun, and its answer tells the robot that its list has changed.
func (l *Leveller) HandOver(ctx context.Context, robot string, now time.Time) (moved int, err error) {
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
	var waiting bool
	err = l.db.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM assignments a LEFT JOIN progress d ON d.robot = a.robot AND d.host = a.host
		WHERE a.robot = ? AND a.to_generation IS NULL AND d.host IS NULL)`, robot).Scan(&waiting)
	if err != nil || !waiting {
		return 0, err
	}
	filter := hostFilter{where: movable, args: []any{robot, fresh}, robots: append([]string{robot}, idle...)}
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
	if h.work, err = l.workOf(ctx, s); err != nil {
		return 0, err
	}
	if h.groups, err = s.groups(s.cost); err != nil {
		return 0, fmt.Errorf("balance: %w", err)
	}
	h.to = slices.Clone(h.groups.from)
	h.feed(idle)
	if len(shipments) > 0 {
		if err := l.ship(ctx, h, shipments); err != nil {
			return 0, err
		}
	}
	return l.carryOut(ctx, h)
}

// feed gives idle robots some of the giver's groups.
func (h *handover) feed(idle []string) {
	for _, robot := range idle {
		taker, ok := h.snap.robot(robot)
		if !ok {
			continue
		}
		night := balance.Night{Waiting: make([][]int, len(h.snap.robots)), Busy: h.work.busy, Pace: h.work.pace}
		for n, i := range h.to {
			if i == h.giver || i == taker {
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

// carryOut moves the groups that are to have another robot, unless the robot has begun them
// meanwhile. It returns how many hosts it has moved.
func (l *Leveller) carryOut(ctx context.Context, h *handover) (moved int, err error) {
	err = l.assignments.Change(ctx, func(t *assign.Tx) error {
		moved = 0
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
			if begun {
				continue
			}
			ok, err := t.Move(ctx, hosts, h.snap.robots[from], h.snap.robots[to])
			if err != nil {
				return err
			}
			if ok {
				moved += len(hosts)
			}
		}
		return nil
	})
	if err == nil && moved > 0 {
		l.opt.Log.InfoContext(ctx, "hosts handed on that were not begun", "from", h.snap.robots[h.giver], "hosts", moved)
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

// work is what the robots of a snapshot have done in their cycles, and what they have in hand.
type work struct {
	busy []float64 // by robot: ms that the hosts it has begun are expected to take yet
	pace []float64 // by robot: time that its hosts took, as a multiple of what was expected; 0: not known
}

// workOf sums up what the robots have told of their cycles.
func (l *Leveller) workOf(ctx context.Context, s *snapshot) (w work, err error) {
	n := len(s.robots)
	w = work{make([]float64, n), make([]float64, n)}
	expected, inHand := make([]float64, n), make([]float64, n)
	took, spent := make([]float64, n), make([]float64, n)
	err = db.Each(ctx, l.db, func(rows *sql.Rows) error {
		var robot, state string
		var weight, ms, all float64
		if err := rows.Scan(&robot, &state, &weight, &ms, &all); err != nil {
			return err
		}
		i, ok := s.robot(robot)
		if !ok {
			return nil
		}
		spent[i] = all
		if state == "done" {
			expected[i], took[i] = weight*s.slow[i], ms
		} else {
			inHand[i] = weight * s.slow[i]
		}
		return nil
	}, `
		SELECT d.robot, d.state, SUM(COALESCE(h.weight, (SELECT typical FROM plans))), SUM(d.ms), MAX(b.ms)
		FROM progress d JOIN hosts h ON h.name = d.host JOIN heartbeats b ON b.robot = d.robot GROUP BY d.robot, d.state`)
	if err != nil {
		return w, fmt.Errorf("progress: %w", err)
	}
	for i := range n {
		pace := 1.0
		if expected[i] > 0 && took[i] > 0 {
			w.pace[i] = took[i] / expected[i]
			pace = w.pace[i]
		}
		w.busy[i] = max(0, inHand[i]*pace-max(0, spent[i]-took[i]))
	}
	return w, nil
}

// ends returns when each robot will be done with what it has begun and with the plan's groups, in
// ms from now.
func (w work) ends(c *balance.Costs, plan balance.Plan) []float64 {
	end := slices.Clone(w.busy)
	for n, i := range plan {
		if i >= 0 {
			pace := w.pace[i]
			if pace == 0 {
				pace = 1
			}
			end[i] += c.At(i, n) * pace
		}
	}
	return end
}
