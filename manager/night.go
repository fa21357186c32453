package manager

import (
	"cmp"
	"context"
	"database/sql"
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

// ship is what a robot is to pass to its neighbour in the tree.
type ship struct {
	to   string
	urls float64
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

// load puts a robot's groups onto its ships.
func (m *Manager) load(ctx context.Context, p *picture, c *balance.Costs, groups [][]int, end []float64, to balance.Plan, from int, ships []ship) error {
	urls, err := m.urls(ctx, p.robots[from])
	if err != nil {
		return err
	}
	size := make([]float64, len(groups))
	for n, list := range groups {
		for _, j := range list {
			size[n] += max(1, urls[p.hosts[j]])
		}
	}
	for _, s := range ships {
		if i, ok := slices.BinarySearch(p.robots, s.to); ok {
			shipOver(c, to, size, end, from, i, s.urls)
		}
	}
	return nil
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

// Backlog is one robot's part of the work as it is now.
type Backlog struct {
	Robot string    `json:"robot"`
	At    time.Time `json:"at"` // of its last heartbeat
	Phase string    `json:"phase"`
	Cycle int64     `json:"cycle"`
	Left  int64     `json:"left"`           // URLs known and not collected
	Rate  float64   `json:"pages_a_second"` // 0: not known yet
	Pages int64     `json:"pages"`
	Bytes int64     `json:"bytes"`
	Spool int64     `json:"spool"`
	Begun int64     `json:"hosts_begun"`
	Done  int64     `json:"hosts_done"`
}

// Backlogs gives what each robot that takes part last said, by name.
func (m *Manager) Backlogs(ctx context.Context) ([]Backlog, error) {
	rows, err := m.db.QueryContext(ctx, `
		SELECT b.robot, b.at, b.phase, b.cycle, b.left_urls, b.rate, b.pages, b.bytes, b.spool,
			(SELECT COUNT(*) FROM progress d WHERE d.robot = b.robot AND d.state = 'begun'),
			(SELECT COUNT(*) FROM progress d WHERE d.robot = b.robot AND d.state = 'done')
		FROM heartbeats b JOIN robots r ON r.name = b.robot WHERE r.subscribed = 1 AND r.lapsed = 0 ORDER BY b.robot`)
	if err != nil {
		return nil, fmt.Errorf("backlogs: %w", err)
	}
	defer rows.Close()
	list := []Backlog{}
	for rows.Next() {
		var b Backlog
		var at int64
		if err := rows.Scan(&b.Robot, &at, &b.Phase, &b.Cycle, &b.Left, &b.Rate, &b.Pages, &b.Bytes, &b.Spool, &b.Begun, &b.Done); err != nil {
			return nil, fmt.Errorf("backlogs: %w", err)
		}
		b.At = db.Time(at)
		list = append(list, b)
	}
	return list, rows.Err()
}

// at work and heard of: those between whom work can be shipped.
func (b Backlog) active(now time.Time) bool {
	switch b.Phase {
	case "collecting", "closed", "idle":
		return now.Sub(b.At) <= freshFor
	}
	return false
}

// rates gives the robots' rates, of those whose own is not known the mean of the others';
// nil where nobody's is known.
func rates(list []Backlog) []float64 {
	sum, n := 0.0, 0
	for _, b := range list {
		if b.Rate > 0 {
			sum, n = sum+b.Rate, n+1
		}
	}
	if n == 0 {
		return nil
	}
	r := make([]float64, len(list))
	for i, b := range list {
		if r[i] = b.Rate; r[i] <= 0 {
			r[i] = sum / float64(n)
		}
	}
	return r
}

// level works out what is to pass the edges of the robots' tree, where the trigger says so
// (paper 000, 3.3). It is shipped as the robots are next heard of (shed): hosts that have not been
// begun, as many as their URLs make up what is to pass each edge.
func (m *Manager) level(ctx context.Context, trigger *balance.Trigger, now time.Time) error {
	all, err := m.Backlogs(ctx)
	if err != nil {
		return err
	}
	active := slices.DeleteFunc(all, func(b Backlog) bool { return !b.active(now) })
	loads := make([]float64, len(active))
	for i, b := range active {
		loads[i] = float64(b.Left)
	}
	if len(active) < 2 || !trigger.Fire(now, loads, rates(active)) {
		return nil
	}
	tree, err := m.tree(ctx, active)
	if err != nil {
		return err
	}
	ships := map[string][]ship{}
	for _, round := range balance.Shipping(tree, loads, rates(active)) {
		for _, s := range round {
			if s.Load >= 1 {
				ships[active[s.From].Robot] = append(ships[active[s.From].Robot], ship{active[s.To].Robot, s.Load})
			}
		}
	}
	m.planning.Lock()
	defer m.planning.Unlock()
	m.ships = ships
	return nil
}

// shipOver passes groups worth at most so many URLs from one robot to its neighbour, those first to
// which the neighbour is relatively nearest. URLs are not time: as with Take, a group is not passed to where it
// costs several times as much, nor where it would be done later than where it is.
func shipOver(c *balance.Costs, plan balance.Plan, size, end []float64, from, to int, urls float64) {
	const dear, doubt = 3, 0.5
	var held []int
	for n, i := range plan {
		if i == from {
			held = append(held, n)
		}
	}
	slices.SortStableFunc(held, func(a, b int) int {
		return cmp.Compare(c.At(to, a)*c.At(from, b), c.At(to, b)*c.At(from, a))
	})
	for _, n := range held {
		here, there := c.At(from, n), c.At(to, n)
		if size[n] > urls || there > dear*here || end[to]+there*(1+doubt) >= end[from] {
			continue
		}
		plan[n] = to
		urls -= size[n]
		end[to], end[from] = end[to]+there, end[from]-here
	}
}

// grown is a tree of robots, and when it was made.
type grown struct {
	robots []string
	tree   balance.Tree
	at     time.Time
}

// A tree is made from so many hosts, and holds for so long: what lies near to what does not change by the hour.
const (
	treeHosts = 2000
	treeFor   = time.Hour
)

// tree joins the robots by how alike the hosts look from them.
func (m *Manager) tree(ctx context.Context, list []Backlog) (balance.Tree, error) {
	names := make([]string, len(list))
	for i, b := range list {
		names[i] = b.Robot
	}
	if t := m.grown.Load(); t != nil && time.Since(t.at) < treeFor && slices.Equal(t.robots, names) {
		return t.tree, nil
	}
	p, err := m.look(ctx, "h.name IN (SELECT DISTINCT host FROM costs ORDER BY host LIMIT ?)", treeHosts)
	if err != nil {
		return nil, err
	}
	number := make([]int, len(list))
	for i, b := range list {
		number[i], _ = slices.BinarySearch(p.robots, b.Robot)
	}
	c, err := balance.NewCosts(len(list), len(p.hosts), func(i, j int) float64 { return p.cost(number[i], j) })
	if err != nil {
		return nil, fmt.Errorf("balance: tree: %w", err)
	}
	tree := balance.Prim(balance.Distances(c))
	if len(p.hosts) > 0 {
		m.grown.Store(&grown{names, tree, time.Now()})
	}
	return tree, nil
}

// urls gives how many requests a robot's hosts took in their last night, where that was measured.
func (m *Manager) urls(ctx context.Context, robot string) (map[string]float64, error) {
	urls := map[string]float64{}
	latest := map[string]int64{}
	err := m.transact(ctx, &sql.TxOptions{ReadOnly: true}, func(tx *sql.Tx) error {
		const mine = `h.name IN (SELECT host FROM assignments WHERE robot = ? AND to_generation IS NULL)`
		return readSamples(ctx, tx, mine, []any{robot}, func(_, host string, list samples) {
			if len(list) == 0 || list[len(list)-1].hour <= latest[host] {
				return
			}
			last := list[len(list)-1].hour
			latest[host], urls[host] = last, 0
			for _, s := range list {
				if s.hour > last-12 {
					urls[host] += float64(s.requests)
				}
			}
		})
	})
	return urls, err
}
