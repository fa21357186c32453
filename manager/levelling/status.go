package levelling

import (
	"context"
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
	Tree     [][2]string  `json:"tree"`           // of the robots at work: its edges
	Flows    [][]EdgeFlow `json:"flows"`          // that would level their backlogs by their rates, in rounds
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
func (l *Leveller) addFlows(ctx context.Context, s *Status) error {
	s.Tree, s.Flows = [][2]string{}, [][]EdgeFlow{}
	var active []Backlog
	for _, b := range s.Backlogs {
		if b.active(time.Now()) {
			active = append(active, b)
			s.Left += b.Left
		}
	}
	if len(active) == 0 {
		return nil
	}
	s.Mean = float64(s.Left) / float64(len(active))
	tree, err := l.treeOf(ctx, active)
	if err != nil {
		return err
	}
	for i, near := range tree {
		for _, k := range near {
			if i < k {
				s.Tree = append(s.Tree, [2]string{active[i].Robot, active[k].Robot})
			}
		}
	}
	for _, round := range balance.Shipping(tree, left(active), rates(active)) {
		var flows []EdgeFlow
		for _, ship := range round {
			if ship.Load >= 1 {
				flows = append(flows, EdgeFlow{active[ship.From].Robot, active[ship.To].Robot, ship.Load})
			}
		}
		if flows != nil {
			s.Flows = append(s.Flows, flows)
		}
	}
	return nil
}

func (l *Leveller) lastPlan(ctx context.Context) (p Plan, err error) {
	var why string
	err = l.db.QueryRowContext(ctx, `SELECT made, makespan, bound, moved, explain FROM plans`).Scan(db.At(&p.Made), &p.Makespan, &p.Bound, &p.Moved, &why)
	if why != "" {
		p.Why = strings.Split(why, "\n")
	}
	return p, err
}
