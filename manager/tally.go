package manager

import "slices"

// load is what a robot has to do: so many hosts, which are thought to take it so long.
type load struct {
	robot string
	hosts int64
	ms    float64
	slow  float64 // ms at this robot for what takes 1 ms at the middle one

	shares bool // its program works by shares
}

// with gives the robot's time if it had the group besides.
func (l *load) with(g group) float64 { return l.ms + g.weight*l.slow }

// tally is what robots have to do, as of one generation and one plan. To sum it up takes a look at every assignment; kept
// from one edit to the next it costs nothing, and who finds another generation or plan sums up anew, whichever
// process made them.
type tally struct {
	generation, made int64
	loads            []*load // not to be changed
}

// loads gives the robots that take part and are heard of, by name, with what they have to do. The caller adds to
// the loads what it gives to robots.
func (e *edit) loads() ([]*load, error) {
	switch {
	case e.taken || !e.summed && e.generation != 0:
		e.tally = nil // this edit has changed what was known
		return e.sumUp()
	case e.summed && e.tally != nil:
		return slices.Clone(e.tally.loads), nil
	}
	e.summed = true
	now := &tally{}
	if err := e.tx.QueryRowContext(e.ctx, `SELECT number, (SELECT made FROM plans) FROM generation`).Scan(&now.generation, &now.made); err != nil {
		return nil, err
	}
	robots, err := e.takingPart()
	if err != nil {
		return nil, err
	}
	known := e.tally
	e.tally = now
	if known == nil || known.generation != now.generation || known.made != now.made || !slices.EqualFunc(known.loads, robots, (*load).same) {
		now.loads, err = e.sumUp()
		return slices.Clone(now.loads), err
	}
	now.loads = make([]*load, len(known.loads)) // this edit may fail, and what it adds be wrong
	for i, l := range known.loads {
		c := *l
		now.loads[i] = &c
	}
	return slices.Clone(now.loads), nil
}

// outcome gives the tally after the edit; nil where it is not known.
func (e *edit) outcome() *tally {
	switch {
	case e.taken || e.tally == nil:
		return nil
	case e.generation == 0:
		return e.tally
	case e.tally.generation != e.generation-1:
		return nil // another process has made generations since
	}
	return &tally{e.generation, e.tally.made, e.tally.loads}
}

// same reports whether two loads are of one robot, by the same line.
func (l *load) same(o *load) bool {
	return l.robot == o.robot && l.slow == o.slow && l.shares == o.shares
}

// takingPart gives the robots without what they have to do.
func (e *edit) takingPart() ([]*load, error) {
	rows, err := e.tx.QueryContext(e.ctx, `SELECT name, slow, shares FROM robots WHERE subscribed = 1 AND lapsed = 0 ORDER BY name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var robots []*load
	for rows.Next() {
		l := new(load)
		if err := rows.Scan(&l.robot, &l.slow, &l.shares); err != nil {
			return nil, err
		}
		robots = append(robots, l)
	}
	return robots, rows.Err()
}

// sumUp is loads, by looking at every assignment.
func (e *edit) sumUp() ([]*load, error) {
	rows, err := e.tx.QueryContext(e.ctx, `
		SELECT r.name, COUNT(a.host), r.slow, r.shares, SUM(CASE WHEN h.name IS NULL THEN 0.0 ELSE COALESCE(h.weight, (SELECT typical FROM plans)) / h.parts * r.slow END)
		FROM robots r LEFT JOIN assignments a ON a.robot = r.name AND a.to_generation IS NULL LEFT JOIN hosts h ON h.name = a.host
		WHERE r.subscribed = 1 AND r.lapsed = 0 GROUP BY r.name, r.slow, r.shares ORDER BY r.name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var loads []*load
	for rows.Next() {
		l := new(load)
		if err := rows.Scan(&l.robot, &l.hosts, &l.slow, &l.shares, &l.ms); err != nil {
			return nil, err
		}
		loads = append(loads, l)
	}
	return loads, rows.Err()
}
