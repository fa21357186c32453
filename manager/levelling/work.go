package levelling

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"sheaf/internal/db"
	"sheaf/manager/balance"
)

// work is what robots have done in their cycles, and what they have begun.
type work struct {
	busy []float64 // by robot: expected ms until the hosts that it has begun are done
	pace []float64 // by robot: time that its hosts took, as a multiple of the expected time; 1 if that is not known
}

// workOf sums up the progress of some of the snapshot's robots. It knows nothing of the others.
func (l *Leveller) workOf(ctx context.Context, s *snapshot, robots []string) (w work, err error) {
	n := len(s.robots)
	w = work{make([]float64, n), slices.Repeat([]float64{1}, n)}
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
		FROM progress d JOIN hosts h ON h.name = d.host JOIN heartbeats b ON b.robot = d.robot
		WHERE d.robot IN `+db.Tuple(len(robots))+` GROUP BY d.robot, d.state`, db.Args(robots)...)
	if err != nil {
		return w, fmt.Errorf("progress: %w", err)
	}
	for i := range n {
		if expected[i] > 0 && took[i] > 0 {
			w.pace[i] = took[i] / expected[i]
		}
		w.busy[i] = max(0, inHand[i]*w.pace[i]-max(0, spent[i]-took[i]))
	}
	return w, nil
}

// ends returns the ms from now until each robot has finished the hosts that it has begun and the
// groups that the plan gives it.
func (w work) ends(c *balance.Costs, plan balance.Plan) []float64 {
	end := slices.Clone(w.busy)
	for n, i := range plan {
		if i >= 0 {
			end[i] += c.At(i, n) * w.pace[i]
		}
	}
	return end
}
