package levelling

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/manager/assign"
	"sheaf/manager/balance"
)

// Plan is the result of planning which robot collects which host.
type Plan struct {
	Made       time.Time `json:"made,omitzero"`
	Generation int64     `json:"generation"`     // the assignment from which it was made
	Measured   int       `json:"measured"`       // number of measured pairs of robot and host
	Outliers   int       `json:"outliers"`       // hours left out because they differ much from the host's other hours
	Makespan   float64   `json:"makespan_ms"`    // ms of collecting until the last robot ends
	Before     float64   `json:"before_ms"`      // the same if nothing moved
	Bound      float64   `json:"lower_bound_ms"` // no plan ends sooner
	Moved      int       `json:"moved"`          // hosts that move or are placed
	Probes     int       `json:"probes"`         // number of pairs to be measured because they could change the plan
	Why        []string  `json:"explanation,omitempty"`
	Large      []Large   `json:"large,omitempty"` // hosts that do not fit into a window

	Ends []RobotEnd `json:"ends,omitempty"` // by robot
}

// Rebalance makes a plan from the measured costs and, unless dry is set, assigns the hosts by it.
// It starts from the present assignment and moves few hosts. Hosts that a robot has begun in its
// cycle stay. If nothing was measured, it changes nothing. One process plans at a time; if another
// planner has begun since, Rebalance fails with ErrFenced.
func (l *Leveller) Rebalance(ctx context.Context, dry bool) (Plan, error) {
	if dry {
		return course{l, dryRun}.run(ctx)
	}
	return l.asPlanner(ctx, func(ctx context.Context, token int64) (Plan, error) { return course{l, token}.run(ctx) })
}

// proposal is a plan before it is carried out.
type proposal struct {
	Plan
	snapshot *snapshot
	course   course
	items    *items
	result   balance.Result
	probes   []balance.Pair
}

// plan is Rebalance for the planner that has the course's token. If the token is dryRun, it writes
// nothing.
func (l *Leveller) plan(ctx context.Context, c course) (Plan, error) {
	token := c.token
	l.planning.Lock()
	defer l.planning.Unlock()
	l.making.Store(true)
	defer l.making.Store(false)
	if token != dryRun {
		if err := l.learnAll(ctx); err != nil {
			return Plan{}, fmt.Errorf("balance: %w", err)
		}
	}
	silent, err := assign.Silent(ctx, l.db, l.assignments.Now())
	if err != nil {
		return Plan{}, fmt.Errorf("balance: %w", err)
	}
	s, err := l.snapshot(ctx, without(silent))
	if err != nil {
		return Plan{}, err
	}
	begun, err := l.begun(ctx)
	if err != nil {
		return Plan{}, err
	}
	p := &proposal{Plan: Plan{Outliers: s.outliers, Generation: s.generation}, snapshot: s, course: c}
	for _, list := range s.measured {
		p.Measured += len(list)
	}
	if len(s.robots) == 0 || !s.fit() {
		p.Why = []string{"Nothing has been measured yet: the hosts stay where they are."}
		if token != dryRun {
			err = l.noteUnplanned(ctx, token, p.Why[0])
		}
		return p.Plan, err
	}
	if err := p.workOut(ctx, begun, l.opt); err != nil {
		return p.Plan, fmt.Errorf("balance: %w", err)
	}
	if token == dryRun {
		return p.Plan, nil
	}
	return p.Plan, l.adopt(ctx, p)
}

// workOut computes the plan from the snapshot.
func (p *proposal) workOut(ctx context.Context, begun map[string]bool, opt Options) (err error) {
	s := p.snapshot
	if err := p.course.step(ctx, stepChoose); err != nil {
		return err
	}
	fixed := make([]bool, len(s.hosts))
	for j, host := range s.hosts {
		fixed[j] = begun[host]
	}
	if p.items, err = s.items(fixed, func() error { return context.Cause(ctx) }); err != nil {
		return err
	}
	it := p.items
	if it.costs, err = it.costs.WithChains(func(i, n int) float64 { return s.paces[i].Chain(s.itemWork(it, i, n)) }); err != nil {
		return err
	}
	if err := p.course.step(ctx, stepImprove); err != nil {
		return err
	}
	if p.result, err = balance.ReplanApart(it.costs, it.from, it.apart); err != nil {
		return err
	}
	if err := p.course.step(ctx, stepExplain); err != nil {
		return err
	}
	p.result.Bound = s.bound(it, p.result)
	p.Made, p.Bound = time.Now().UTC().Truncate(time.Millisecond), p.result.Bound
	p.Ends = s.ends(it, p.result.Plan)
	before := s.ends(it, it.from)
	p.Before = last(before).MS
	stay := ""
	if last(p.Ends).MS > sooner*p.Before && !slices.Contains(it.from, -1) && it.moved(p.result.Plan) > 0 {
		p.result.Plan, p.result.Makespan, p.Ends = it.from, it.from.Makespan(it.costs), before
		stay = "Nothing moves: no plan that was found ends clearly sooner."
	}
	p.Makespan = last(p.Ends).MS
	p.Why = balance.Explain(it.costs, p.result, it.from,
		func(robot int) string { return s.robots[robot] }, func(group int) string { return s.groupName(it.hosts[group]) })
	if end := last(p.Ends); end.Binds != "" {
		p.Why[0] = end.String()
	}
	if stay != "" {
		p.Why = append(p.Why, stay)
	}
	p.Large = s.large(opt.Window)
	p.probes = s.worthProbing(p.items, p.result, opt.Probes*len(s.robots))
	p.Probes = len(p.probes)
	p.Moved = p.items.moved(p.result.Plan)
	return context.Cause(ctx)
}

// sooner is the part of the present night's length in which a new plan must end, or nothing moves.
const sooner = 0.99

// begun returns the hosts that stay where they are: hosts that a robot has begun in its cycle and
// not finished, and hosts that an operator has pinned.
func (l *Leveller) begun(ctx context.Context) (map[string]bool, error) {
	begun, err := db.Set[string](ctx, l.db, `
		SELECT p.host FROM progress p JOIN heartbeats b ON b.robot = p.robot
		WHERE p.state = 'begun' AND b.phase IN ('collecting', 'closed', 'paused', 'starting')
		UNION SELECT name FROM hosts WHERE pinned <> ''`)
	if err != nil {
		return nil, fmt.Errorf("balance: hosts begun: %w", err)
	}
	return begun, nil
}

// noteUnplanned records that today's plan changed nothing, and why.
func (l *Leveller) noteUnplanned(ctx context.Context, token int64, why string) error {
	return db.Transact(ctx, l.db, nil, func(tx *sql.Tx) error {
		if err := checkToken(ctx, tx, token); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE plans SET made = ?, explain = ?`, db.Millis(time.Now()), why)
		return err
	})
}

// movesAtOnce is how many items one transaction moves. It is small, so that other transactions do
// not wait long. Tests change it.
var movesAtOnce = 2000

// adopt stores the factors of robots and hosts, and moves the hosts as planned. Many moves take
// several transactions. If the plan is given up between them, the next plan starts from there.
func (l *Leveller) adopt(ctx context.Context, p *proposal) error {
	s := p.snapshot
	if err := l.keepWeights(ctx, s); err != nil {
		return fmt.Errorf("balance: %w", err)
	}
	moves := p.items.moves(p.result.Plan)
	for done := 0; ; {
		if err := p.course.step(ctx, fmt.Sprintf("%s, %d of %d", stepWrite, done, len(moves))); err != nil {
			return err
		}
		some := moves[done:min(done+movesAtOnce, len(moves))]
		last := done+len(some) == len(moves)
		err := l.assignments.Change(ctx, func(t *assign.Tx) error {
			if err := checkToken(ctx, t, p.course.token); err != nil {
				return err
			}
			if done == 0 { // before the end of the transaction gives waiting hosts to robots
				if err := keepSlow(ctx, t, s); err != nil {
					return err
				}
			}
			if err := p.items.move(ctx, t, s, p.result.Plan, some); err != nil || !last {
				return err
			}
			return l.finish(ctx, t, p)
		})
		if done += len(some); err != nil || last {
			return err
		}
	}
}

// keepSlow stores the snapshot's slow of each robot.
func keepSlow(ctx context.Context, t *assign.Tx, s *snapshot) error {
	for i, robot := range s.robots {
		if _, err := t.Exec(ctx, `UPDATE robots SET slow = ? WHERE name = ?`, s.slow[i], robot); err != nil {
			return err
		}
	}
	return nil
}

// finish stores the plan itself, once its moves are done.
func (l *Leveller) finish(ctx context.Context, t *assign.Tx, p *proposal) error {
	s := p.snapshot
	if l.opt.Split && l.opt.Window > 0 {
		if err := t.SplitByPlan(ctx, s.splits(p.Large, float64(l.opt.Window.Milliseconds()))); err != nil {
			return err
		}
	}
	if err := keepEnds(ctx, t, p.Ends); err != nil {
		return err
	}
	now := db.Millis(p.Made)
	for _, pair := range p.probes {
		if err := askProbe(ctx, t, s.robots[pair.Robot], s.hosts[pair.Host], now); err != nil {
			return err
		}
	}
	_, err := t.Exec(ctx, `UPDATE plans SET made = ?, generation = ?, typical = ?, makespan = ?, bound = ?, moved = ?, explain = ?`,
		now, p.Generation, s.unmeasured.weight, p.Makespan, p.Bound, p.Moved, strings.Join(p.Why, "\n"))
	if err != nil {
		return err
	}
	return t.Planned(ctx, s.loads(p.items, p.result.Plan))
}

// keepWeights stores the hosts' weights that have changed. It uses many short transactions, so that
// other transactions do not wait long.
func (l *Leveller) keepWeights(ctx context.Context, s *snapshot) error {
	var rows [][]any
	for j, host := range s.hosts {
		if len(s.measured[j]) > 0 || s.kb[j] > 0 { // other hosts have the typical weight
			rows = append(rows, []any{host, s.weight[j]})
		}
	}
	const row = `(?, CAST(? AS DOUBLE PRECISION))`
	for part := range slices.Chunk(rows, 10*db.RowsAtOnce) {
		err := db.Transact(ctx, l.db, nil, func(tx *sql.Tx) error {
			for some := range slices.Chunk(part, db.RowsAtOnce) {
				_, err := tx.ExecContext(ctx, `
					WITH now (name, weight) AS (VALUES `+row+strings.Repeat(`, `+row, len(some)-1)+`)
					UPDATE hosts SET weight = now.weight FROM now
					WHERE hosts.name = now.name AND (hosts.weight IS NULL OR ABS(hosts.weight - now.weight) > 0.02 * hosts.weight)`, slices.Concat(some...)...)
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// groupName returns the name of a group of hosts: that of its first host.
func (s *snapshot) groupName(hosts []int) string {
	name := s.hosts[hosts[0]]
	if more := len(hosts) - 1; more > 0 {
		name += fmt.Sprintf(" (and %d more of %s)", more, s.group[hosts[0]])
	}
	return name
}

// lateBy is the delay after which a plan waits for the next day, because robots are at work.
const lateBy = time.Hour

// PlanToday makes the day's plan if it is due. If it made none, plan.Made is zero. It may have to
// wait until another process has finished a plan.
func (l *Leveller) PlanToday(ctx context.Context) (plan Plan, err error) {
	if due, err := l.PlanDue(ctx, time.Now()); err != nil || !due {
		return plan, err
	}
	return l.asPlanner(ctx, func(ctx context.Context, token int64) (Plan, error) {
		if due, err := l.PlanDue(ctx, time.Now()); err != nil || !due { // another process may have made it meanwhile
			return Plan{}, err
		}
		return course{l, token}.run(ctx)
	})
}

// clockError is how far the clocks of the processes may be apart.
const clockError = 5 * time.Minute

// PlanDue reports whether the day's plan is to be made now.
func (l *Leveller) PlanDue(ctx context.Context, now time.Time) (bool, error) {
	clock, err := time.Parse("15:04", l.opt.At)
	if err != nil { // none is made
		return false, nil
	}
	y, month, day := now.In(l.opt.Zone).Date()
	at := time.Date(y, month, day, clock.Hour(), clock.Minute(), 0, 0, l.opt.Zone)
	if now.Before(at) || now.Sub(at) > lateBy {
		return false, nil
	}
	var made, stopped time.Time // a plan that took too long or was cancelled is not tried again today
	err = l.db.QueryRowContext(ctx, `SELECT made, CASE WHEN reason LIKE ? THEN given_up ELSE 0 END FROM plans`, ErrGivenUp.Error()+"%").
		Scan(db.At(&made), db.At(&stopped))
	// What is noted of the future was noted by a clock that was ahead.
	return (made.Before(at) || made.After(now.Add(clockError))) && (stopped.Before(at) || stopped.After(now.Add(clockError))), err
}
