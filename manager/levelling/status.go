package levelling

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
	"sheaf/manager/balance"
)

// Status says how the hosts are shared out among the robots.
type Status struct {
	Plan     Plan        `json:"plan"` // the last one made
	Course   Course      `json:"course"`
	Robots   []Share     `json:"robots"`
	Ends     []Outlook   `json:"ends"` // when the robots are to end, by this plan
	Backlogs []Backlog   `json:"backlogs"`
	Left     int64       `json:"left"`           // URLs known and not collected, of all robots at work
	Mean     float64     `json:"mean"`           // mean of Left over these robots
	Tree     []Node      `json:"tree"`           // of the robots at work, parents first
	Levelled []Levelling `json:"levelled"`       // what robots have handed on, the latest first
	Probes   int64       `json:"probes_waiting"` // number of distances that robots are still to measure
	Nights   []Night     `json:"nights"`         // the last nights of each robot, predicted and actual, the latest first
}

// Share is a robot's part of the assignment.
type Share struct {
	Robot    string  `json:"robot"`
	Hosts    int64   `json:"hosts"`
	Expected float64 `json:"expected_ms"` // ms of transfer in a night
	Slow     float64 `json:"slow"`        // ms that it takes where the median robot takes 1 ms
}

// Node is a robot in the tree along which backlogs are levelled (paper 000, 3.3).
type Node struct {
	Robot  string  `json:"robot"`
	Parent string  `json:"parent,omitempty"`
	Left   int64   `json:"left"` // URLs
	Due    float64 `json:"due"`  // URLs that it would have if all robots ended together
	Over   float64 `json:"over"` // Left minus Due of the robot and all below it: the URLs that its parent should take
}

// Levelling is what one robot handed on at one of its heartbeats.
type Levelling struct {
	Made   time.Time `json:"made"`
	Passed []Passing `json:"passed"`
}

// Passing is the hosts that one robot hands on to another.
type Passing struct {
	From  string  `json:"from"`
	To    string  `json:"to"`
	Hosts int     `json:"hosts"`
	URLs  float64 `json:"urls"` // URLs left; for hosts that were not begun, the requests of their last night
}

// Status returns how the work is shared out now.
func (l *Leveller) Status(ctx context.Context) (s Status, err error) {
	s.Nights = []Night{}
	if s.Plan, err = l.lastPlan(ctx); err != nil {
		return s, err
	}
	if s.Course, err = l.Course(ctx); err != nil {
		return s, err
	}
	loads, err := l.assignments.Loads(ctx)
	if err != nil {
		return s, fmt.Errorf("balance: %w", err)
	}
	for _, load := range loads {
		s.Robots = append(s.Robots, Share{load.Robot, load.Hosts, load.MS, load.Slow})
	}
	if s.Backlogs, err = l.Backlogs(ctx); err != nil {
		return s, err
	}
	if err := l.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM probes WHERE done = 0`).Scan(&s.Probes); err != nil {
		return s, err
	}
	if s.Ends, err = l.outlooks(ctx, time.Now()); err != nil {
		return s, err
	}
	nights, err := readNights(ctx, l.db, shownNights)
	if err != nil {
		return s, err
	}
	for _, robot := range slices.Sorted(maps.Keys(nights)) {
		s.Nights = append(s.Nights, nights[robot]...)
	}
	return s, l.addTree(ctx, &s)
}

// shownNights is how many nights of each robot Status shows.
const shownNights = 3

// addTree adds the tree of the robots at work, and what robots have passed on lately.
func (l *Leveller) addTree(ctx context.Context, s *Status) (err error) {
	if s.Levelled, err = l.lastLevellings(ctx); err != nil {
		return err
	}
	active := slices.DeleteFunc(slices.Clone(s.Backlogs), func(b Backlog) bool { return !b.active(time.Now()) })
	s.Tree = []Node{}
	if len(active) == 0 {
		return nil
	}
	for _, b := range active {
		s.Left += b.Left
	}
	s.Mean = float64(s.Left) / float64(len(active))
	tree, err := l.treeOf(ctx, active)
	if err != nil {
		return err
	}
	sums, _ := balance.Sum(tree, left(active), rates(active))
	for _, i := range sums.Order {
		n := Node{Robot: active[i].Robot, Left: active[i].Left, Due: sums.Due[i], Over: sums.Over[i]}
		if p := sums.Parent[i]; p >= 0 {
			n.Parent = active[p].Robot
		}
		s.Tree = append(s.Tree, n)
	}
	return nil
}

// Passing returns what each robot would hand on if its heartbeat came now and before the others'.
// It changes nothing.
func (l *Leveller) Passing(ctx context.Context, now time.Time) ([]Passing, error) {
	all := []Passing{}
	if !l.opt.During || l.making.Load() {
		return all, nil
	}
	l.planning.Lock()
	shipments := maps.Clone(l.shipments)
	l.planning.Unlock()
	active, err := l.active(ctx, now)
	if err != nil {
		return nil, err
	}
	idle, err := l.idle(ctx, now)
	if err != nil {
		return nil, err
	}
	for _, b := range active {
		if b.Phase == string(wire.PhaseIdle) {
			continue
		}
		d, err := l.decide(ctx, b.Robot, shipments[b.Robot], idle)
		if err != nil {
			return nil, err
		}
		all = append(all, d.passing()...)
	}
	return all, nil
}

// passing returns what each taker gets, by the taker's name.
func (d decision) passing() (list []Passing) {
	for n, t := range d.transfers {
		at := slices.IndexFunc(list, func(p Passing) bool { return p.To == t.To })
		if at < 0 {
			at, list = len(list), append(list, Passing{From: d.robot, To: t.To})
		}
		list[at].Hosts += len(t.Hosts)
		list[at].URLs += d.urls[n]
	}
	slices.SortFunc(list, func(a, b Passing) int { return strings.Compare(a.To, b.To) })
	return list
}

// keptLevellings is the number of levellings that are kept for Status.
const keptLevellings = 10

// noteLevelling stores a levelling and deletes the oldest ones.
func noteLevelling(ctx context.Context, t *assign.Tx, one Levelling) error {
	text, err := json.Marshal(one)
	if err != nil {
		return err
	}
	_, err = t.Exec(ctx, `INSERT INTO levellings (made, robot, passed) VALUES (?, ?, ?) ON CONFLICT (made, robot) DO UPDATE SET passed = excluded.passed`,
		db.Millis(one.Made), one.Passed[0].From, string(text))
	if err == nil {
		_, err = t.Exec(ctx, `DELETE FROM levellings WHERE made < (SELECT MIN(made) FROM (SELECT made FROM levellings ORDER BY made DESC LIMIT ?) AS latest)`, keptLevellings)
	}
	return err
}

func (l *Leveller) lastLevellings(ctx context.Context) ([]Levelling, error) {
	return db.List(ctx, l.db, func(rows *sql.Rows, one *Levelling) error {
		var text []byte
		if err := rows.Scan(&text); err != nil {
			return err
		}
		return json.Unmarshal(text, one)
	}, `SELECT passed FROM levellings ORDER BY made DESC, robot`)
}

func (l *Leveller) lastPlan(ctx context.Context) (p Plan, err error) {
	var why string
	err = l.db.QueryRowContext(ctx, `SELECT made, makespan, bound, moved, explain FROM plans`).Scan(db.At(&p.Made), &p.Makespan, &p.Bound, &p.Moved, &why)
	if why != "" {
		p.Why = strings.Split(why, "\n")
	}
	return p, err
}
