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
	"sheaf/manager/balance"
)

// Status says how the work is shared out.
type Status struct {
	Plan     Plan         `json:"plan"` // the last one made
	Course   Course       `json:"course"`
	Robots   []Share      `json:"robots"`
	Ends     []Outlook    `json:"ends"` // when the robots are to end, by the plan
	Backlogs []Backlog    `json:"backlogs"`
	Left     int64        `json:"left"`           // URLs known and not collected, of all robots at work
	Mean     float64      `json:"mean"`           // of Left, over these robots
	Tree     []Node       `json:"tree"`           // of the robots at work, parents first
	Flows    [][]EdgeFlow `json:"flows"`          // that would level their backlogs by their rates, in rounds
	Levelled []Levelling  `json:"levelled"`       // the last levellings, the latest first
	Probes   int64        `json:"probes_waiting"` // distances that robots are still to measure
	Nights   []Night      `json:"nights"`         // the last of each robot, the latest first: predicted against actual
}

// Share is a robot's part of the assignment.
type Share struct {
	Robot    string  `json:"robot"`
	Hosts    int64   `json:"hosts"`
	Expected float64 `json:"expected_ms"` // of transfer in a night
	Slow     float64 `json:"slow"`        // ms that it takes for what takes the median robot 1 ms
}

// Node is a robot in the tree along which backlogs are levelled (paper 000, 3.3).
type Node struct {
	Robot  string  `json:"robot"`
	Parent string  `json:"parent,omitempty"`
	Left   int64   `json:"left"` // URLs
	Due    float64 `json:"due"`  // URLs that it would have if all ended together
	Over   float64 `json:"over"` // Left less Due of the robot and all below it: what is to pass to its parent
}

// Levelling is what robots at work were to pass on at one time.
type Levelling struct {
	Made  time.Time    `json:"made"`
	Left  int64        `json:"left"` // URLs, of all of them
	Mean  float64      `json:"mean"` // of Left, over these robots
	Flows [][]EdgeFlow `json:"flows"`
}

// EdgeFlow is what is to pass along an edge of the tree.
type EdgeFlow struct {
	From string  `json:"from"`
	To   string  `json:"to"`
	URLs float64 `json:"urls"`
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
	return s, l.addFlows(ctx, &s)
}

// shownNights is how many nights of each robot Status shows.
const shownNights = 3

// addFlows works out what would pass along the edges of the tree now.
func (l *Leveller) addFlows(ctx context.Context, s *Status) (err error) {
	if s.Levelled, err = l.lastLevellings(ctx); err != nil {
		return err
	}
	var active []Backlog
	for _, b := range s.Backlogs {
		if b.active(time.Now()) {
			active = append(active, b)
		}
	}
	s.Tree, s.Flows = []Node{}, [][]EdgeFlow{}
	if len(active) == 0 {
		return nil
	}
	s.Left, s.Mean = mean(active)
	tree, err := l.treeOf(ctx, active)
	if err != nil {
		return err
	}
	s.Flows = flows(active, tree)
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

// mean returns the URLs that robots have left, and their mean.
func mean(active []Backlog) (all int64, mean float64) {
	for _, b := range active {
		all += b.Left
	}
	return all, float64(all) / float64(len(active))
}

// flows returns what is to pass along the edges of a tree so that all end together, in rounds.
func flows(active []Backlog, tree balance.Tree) [][]EdgeFlow {
	rounds := [][]EdgeFlow{}
	for _, round := range balance.Shipping(tree, left(active), rates(active)) {
		var flows []EdgeFlow
		for _, ship := range round {
			if ship.Load >= 1 {
				flows = append(flows, EdgeFlow{active[ship.From].Robot, active[ship.To].Robot, ship.Load})
			}
		}
		if flows != nil {
			rounds = append(rounds, flows)
		}
	}
	return rounds
}

// keptLevellings is how many levellings are kept for Status.
const keptLevellings = 5

// noteLevelling keeps a levelling, and forgets the oldest.
func (l *Leveller) noteLevelling(ctx context.Context, one Levelling) error {
	text, err := json.Marshal(one)
	if err != nil {
		return err
	}
	return db.Transact(ctx, l.db, nil, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO levellings (made, flows) VALUES (?, ?) ON CONFLICT (made) DO NOTHING`, db.Millis(one.Made), string(text))
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM levellings WHERE made NOT IN (SELECT made FROM levellings ORDER BY made DESC LIMIT ?)`, keptLevellings)
		}
		return err
	})
}

func (l *Leveller) lastLevellings(ctx context.Context) ([]Levelling, error) {
	return db.List(ctx, l.db, func(rows *sql.Rows, one *Levelling) error {
		var text []byte
		if err := rows.Scan(&text); err != nil {
			return err
		}
		return json.Unmarshal(text, one)
	}, `SELECT flows FROM levellings ORDER BY made DESC`)
}

func (l *Leveller) lastPlan(ctx context.Context) (p Plan, err error) {
	var why string
	err = l.db.QueryRowContext(ctx, `SELECT made, makespan, bound, moved, explain FROM plans`).Scan(db.At(&p.Made), &p.Makespan, &p.Bound, &p.Moved, &why)
	if why != "" {
		p.Why = strings.Split(why, "\n")
	}
	return p, err
}
