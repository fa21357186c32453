package manager

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sheaf/internal/db"
	"sheaf/manager/balance"
)

// freshFor is how old a heartbeat may be for the robot's hosts to be moved by what it says.
const freshFor = 20 * time.Minute

// notBegun holds for hosts h that lie with a robot, or with one that has nothing left, and none of whose
// group that robot has begun. Groups with a host that is with several robots stay: they share its work already. Its arguments are the robot and the time from which on heartbeats are fresh.
const notBegun = `h.grp IN (
	SELECT g.grp FROM hosts g JOIN assignments ga ON ga.host = g.name AND ga.to_generation IS NULL
		LEFT JOIN progress d ON d.robot = ga.robot AND d.host = g.name
	WHERE ga.robot = ? OR ga.robot IN (SELECT robot FROM heartbeats WHERE phase = 'idle' AND at >= ?)
	GROUP BY g.grp HAVING COUNT(d.host) = 0)
	AND h.grp NOT IN (SELECT s.grp FROM hosts s WHERE s.copies > 1 OR s.parts > 1)`

// work is what the robots have done in their cycles, and have in hand.
type work struct {
	busy []float64 // by robot: ms that what it has begun is thought to take yet
	pace []float64 // by robot: ms that its hosts took over what was thought; 0: nothing is done yet
}

// progress sums up what the picture's robots have told.
func (m *Manager) progress(ctx context.Context, p *picture) (w work, err error) {
	n := len(p.robots)
	w = work{make([]float64, n), make([]float64, n)}
	thought, inHand := make([]float64, n), make([]float64, n)
	took, spent := make([]float64, n), make([]float64, n)
	rows, err := m.db.QueryContext(ctx, `
		SELECT d.robot, d.state, SUM(COALESCE(h.weight, (SELECT typical FROM plans))), SUM(d.ms), MAX(b.ms)
		FROM progress d JOIN hosts h ON h.name = d.host JOIN heartbeats b ON b.robot = d.robot GROUP BY d.robot, d.state`)
	if err != nil {
		return w, fmt.Errorf("progress: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var robot, state string
		var weight, ms, all float64
		if err := rows.Scan(&robot, &state, &weight, &ms, &all); err != nil {
			return w, fmt.Errorf("progress: %w", err)
		}
		i, ok := slices.BinarySearch(p.robots, robot)
		if !ok {
			continue
		}
		spent[i] = all
		if state == "done" {
			thought[i], took[i] = weight*p.slow[i], ms
		} else {
			inHand[i] = weight * p.slow[i]
		}
	}
	for i := range n {
		pace := 1.0
		if thought[i] > 0 && took[i] > 0 {
			w.pace[i] = took[i] / thought[i]
			pace = w.pace[i]
		}
		w.busy[i] = max(0, inHand[i]*pace-max(0, spent[i]-took[i]))
	}
	return w, rows.Err()
}

// ends gives when each robot will be done, in ms from now, with what it has begun and with the plan's groups.
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

// shed takes hosts that a robot has not begun from it, where others have nothing left
// (balance.Take) or levelling wants it (level), and reports how many. It is called when the
// robot has just said what it has begun, and is about to be told that its list has changed:
// at any other time some would be moved that it begins meanwhile, and be collected twice.
func (m *Manager) shed(ctx context.Context, giver string, now time.Time) (moved int, err error) {
	m.planning.Lock()
	defer m.planning.Unlock()
	ships := m.ships[giver]
	idle, err := column[string](ctx, m.db, `
		SELECT b.robot FROM heartbeats b JOIN robots r ON r.name = b.robot
		WHERE b.phase = 'idle' AND b.at >= ? AND b.robot <> ? AND r.subscribed = 1 AND r.lapsed = 0 ORDER BY b.robot`,
		db.Millis(now.Add(-freshFor)), giver)
	if err != nil || len(ships)+len(idle) == 0 {
		return 0, err
	}
	delete(m.ships, giver)
	var waiting bool
	err = m.db.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM assignments a LEFT JOIN progress d ON d.robot = a.robot AND d.host = a.host
		WHERE a.robot = ? AND a.to_generation IS NULL AND d.host IS NULL)`, giver).Scan(&waiting)
	if err != nil || !waiting {
		return 0, err
	}
	involved := append([]string{giver}, idle...)
	for _, s := range ships {
		involved = append(involved, s.to)
	}
	p, err := m.lookAt(ctx, involved, notBegun, giver, db.Millis(now.Add(-freshFor)))
	if err != nil {
		return 0, err
	}
	from, ok := slices.BinarySearch(p.robots, giver)
	if !ok || !slices.Contains(p.at, from) {
		return 0, nil
	}
	w, err := m.progress(ctx, p)
	if err != nil {
		return 0, err
	}
	c, of, plan, err := p.plan(p.cost)
	if err != nil {
		return 0, fmt.Errorf("balance: %w", err)
	}
	groups := members(of, c.Hosts)
	to := slices.Clone(plan)
	for _, robot := range idle {
		if taker, ok := slices.BinarySearch(p.robots, robot); ok {
			night := balance.Night{Waiting: make([][]int, len(p.robots)), Busy: w.busy, Pace: w.pace}
			for n, i := range to {
				if i == from || i == taker {
					night.Waiting[i] = append(night.Waiting[i], n)
				}
			}
			for _, t := range balance.Take(c, night, taker) {
				if t.From == from {
					to[t.Host] = taker
				}
			}
		}
	}
	if len(ships) > 0 {
		end := w.ends(c, to)
		if err := m.addWaiting(ctx, p, w, from, end); err != nil {
			return 0, err
		}
		if err := m.load(ctx, p, c, groups, end, to, from, ships); err != nil {
			return 0, err
		}
	}
	return m.hand(ctx, p, groups, plan, to, giver)
}

// addWaiting adds what waits with the robots whose hosts are not in the picture: those that are
// neither the giver nor have nothing left.
func (m *Manager) addWaiting(ctx context.Context, p *picture, w work, giver int, end []float64) error {
	rows, err := m.db.QueryContext(ctx, `
		SELECT a.robot, SUM(COALESCE(h.weight, (SELECT typical FROM plans)))
		FROM assignments a JOIN hosts h ON h.name = a.host LEFT JOIN progress d ON d.robot = a.robot AND d.host = a.host
		WHERE a.to_generation IS NULL AND d.host IS NULL GROUP BY a.robot`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var robot string
		var weight float64
		if err := rows.Scan(&robot, &weight); err != nil {
			return err
		}
		if i, ok := slices.BinarySearch(p.robots, robot); ok && i != giver && !slices.Contains(p.at, i) {
			end[i] += weight * p.slow[i] * max(w.pace[i], 1)
		}
	}
	return rows.Err()
}

// hand moves the groups whose robots differ, where they have still not been begun.
func (m *Manager) hand(ctx context.Context, p *picture, groups [][]int, from, to balance.Plan, giver string) (moved int, err error) {
	err = m.edit(ctx, func(e *edit) error {
		moved = 0
		for n := range to {
			if from[n] < 0 || from[n] == to[n] {
				continue
			}
			hosts := p.names(groups[n])
			begun, err := e.anyBegun(hosts, p.robots[from[n]])
			if err != nil {
				return err
			}
			if begun {
				continue
			}
			ok, err := e.move(hosts, p.robots[from[n]], p.robots[to[n]])
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
		m.log.InfoContext(ctx, "hosts handed on that were not begun", "from", giver, "hosts", moved)
	}
	return moved, err
}

func (e *edit) anyBegun(hosts []string, robot string) (begun bool, err error) {
	for _, host := range hosts {
		err := e.tx.QueryRowContext(e.ctx, `SELECT EXISTS (SELECT 1 FROM progress WHERE robot = ? AND host = ?)`, robot, host).Scan(&begun)
		if err != nil || begun {
			return begun, err
		}
	}
	return false, nil
}
