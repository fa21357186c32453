package manager

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
	"sheaf/manager/balance"
)

// Plan is what came of planning who collects what.
type Plan struct {
	Made       time.Time `json:"made,omitzero"`
	Generation int64     `json:"generation"` // of the assignment that it was made from
	Measured   int       `json:"measured"`   // pairs of robot and host
	Outliers   int       `json:"outliers"`   // hours kept apart, because they were far from a host's others
	Makespan   float64   `json:"makespan_ms"`
	Bound      float64   `json:"lower_bound_ms"` // no plan ends before it
	Moved      int       `json:"moved"`          // hosts
	Probes     int       `json:"probes"`         // pairs that are to be measured, because it would change the plan
	Why        []string  `json:"explanation,omitempty"`
	Large      []Large   `json:"large,omitempty"` // hosts that do not fit into a window
}

// Large is a host that is too much for any one robot's window (paper 001, 6.1).
type Large struct {
	Host  string  `json:"host"`
	Least float64 `json:"least_ms"` // at the robot where it costs least
	Parts int     `json:"parts"`    // into which it has to be split, by the hash of the URL
}

// Rebalance plans from the costs that robots have measured, going on from the present
// assignment and moving few hosts, and assigns the hosts so unless dry is set. Hosts that a robot
// has begun in its cycle stay. Where nobody has measured anything it changes nothing.
// Of all processes one plans at a time; it fails with ErrFenced where another has begun since.
func (m *Manager) Rebalance(ctx context.Context, dry bool) (plan Plan, err error) {
	if dry {
		return m.plan(ctx, dryRun)
	}
	err = m.asPlanner(ctx, func(ctx context.Context, token int64) error {
		plan, err = m.plan(ctx, token)
		return err
	})
	return plan, err
}

// plan is Rebalance, for the planner with that token, or for nobody: dryRun.
func (m *Manager) plan(ctx context.Context, token int64) (Plan, error) {
	m.planning.Lock()
	defer m.planning.Unlock()
	dry := token == dryRun
	p, err := m.look(ctx, "1 = 1")
	if err != nil {
		return Plan{}, err
	}
	begun, err := m.begun(ctx)
	if err != nil {
		return Plan{}, err
	}
	var plan Plan
	for _, list := range p.measured {
		plan.Measured += len(list)
	}
	plan.Outliers, plan.Generation = p.oddities, p.generation
	if len(p.robots) == 0 || !p.fit() {
		plan.Why = []string{"Nothing has been measured yet: the hosts stay where they are."}
		if !dry {
			err = m.transact(ctx, nil, func(tx *sql.Tx) error {
				if err := mayPlan(ctx, tx, token); err != nil {
					return err
				}
				_, err := tx.ExecContext(ctx, `UPDATE plans SET made = ?, explain = ?`, db.Millis(time.Now()), plan.Why[0])
				return err
			})
		}
		return plan, err
	}
	cost := func(i, j int) float64 {
		if at := p.at[j]; at >= 0 && at != i && begun[p.hosts[j]] {
			return math.Inf(1)
		}
		return p.cost(i, j)
	}
	it, err := p.items(cost)
	if err != nil {
		return plan, fmt.Errorf("balance: %w", err)
	}
	r, err := balance.ReplanApart(it.costs, it.from, it.apart)
	if err != nil {
		return plan, fmt.Errorf("balance: %w", err)
	}
	plan.Made, plan.Makespan, plan.Bound = time.Now().UTC().Truncate(time.Millisecond), r.Makespan, r.Bound
	plan.Why = p.named(balance.Explain(it.costs, r, it.from), it.hosts)
	plan.Large = p.large(m.opt.Balance.Window)
	probes := p.probes(it.costs, r, it.hosts, m.opt.Balance.Probes*len(p.robots))
	plan.Probes = len(probes)
	plan.Moved = it.moved(r.Plan)
	if dry {
		return plan, nil
	}
	return plan, m.adopt(ctx, token, p, plan, it, r.Plan, probes)
}

// begun gives the hosts that a robot has begun in its cycle and not finished.
func (m *Manager) begun(ctx context.Context) (map[string]bool, error) {
	hosts, err := column[string](ctx, m.db, `
		SELECT p.host FROM progress p JOIN heartbeats b ON b.robot = p.robot
		WHERE p.state = 'begun' AND b.phase IN ('collecting', 'closed', 'paused', 'starting')`)
	if err != nil {
		return nil, fmt.Errorf("balance: hosts begun: %w", err)
	}
	begun := make(map[string]bool, len(hosts))
	for _, h := range hosts {
		begun[h] = true
	}
	return begun, nil
}

// adopt writes the factors down, for hosts that come, and assigns the hosts as planned.
func (m *Manager) adopt(ctx context.Context, token int64, p *picture, plan Plan, it *items, to balance.Plan, probes []balance.Pair) error {
	if err := m.keepWeights(ctx, p); err != nil {
		return fmt.Errorf("balance: %w", err)
	}
	return m.edit(ctx, func(e *edit) error {
		if err := mayPlan(ctx, e.tx, token); err != nil {
			return err
		}
		for i, robot := range p.robots {
			if _, err := e.exec(`UPDATE robots SET slow = ? WHERE name = ?`, p.slow[i], robot); err != nil {
				return err
			}
		}
		if err := it.move(e, p, to); err != nil {
			return err
		}
		if m.opt.Balance.Split && m.opt.Balance.Window > 0 {
			if err := e.splitAs(p.splits(plan.Large, p.able, float64(m.opt.Balance.Window.Milliseconds()))); err != nil {
				return err
			}
		}
		now := db.Millis(plan.Made)
		for _, pair := range probes {
			if err := e.askProbe(p.robots[pair.Robot], p.hosts[pair.Host], now); err != nil {
				return err
			}
		}
		_, err := e.exec(`UPDATE plans SET made = ?, generation = ?, typical = ?, makespan = ?, bound = ?, moved = ?, explain = ?`,
			now, plan.Generation, p.typical, plan.Makespan, plan.Bound, plan.Moved, strings.Join(plan.Why, "\n"))
		return err
	})
}

func (p *picture) names(hosts []int) []string {
	names := make([]string, len(hosts))
	for k, j := range hosts {
		names[k] = p.hosts[j]
	}
	return names
}

// keepWeights writes down the hosts' weights that have changed, in parts, so that nobody has to wait long.
func (m *Manager) keepWeights(ctx context.Context, p *picture) error {
	var rows [][]any
	for j, host := range p.hosts {
		if len(p.measured[j]) > 0 || p.kb[j] > 0 { // else it is like the others
			rows = append(rows, []any{host, p.weight[j]})
		}
	}
	const atOnce = 10 * rowsAtOnce
	for part := range slices.Chunk(rows, atOnce) {
		err := m.transact(ctx, nil, func(tx *sql.Tx) error {
			for some := range slices.Chunk(part, rowsAtOnce) {
				_, err := tx.ExecContext(ctx, `
					WITH now (name, weight) AS (VALUES `+strings.Repeat(`(?, CAST(? AS DOUBLE PRECISION)), `, len(some)-1)+`(?, CAST(? AS DOUBLE PRECISION)))
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

// move gives hosts of one group from one robot to another, all or, where they are no
// longer the first one's in slot 0, or the other has some of them, none.
func (e *edit) move(hosts []string, from, to string) (bool, error) {
	several := false
	for _, host := range hosts {
		held, err := e.holders(host)
		if err != nil {
			return false, err
		}
		if first(held) != from || has(held, to) {
			return false, nil
		}
		several = several || len(held) > 1
	}
	for _, host := range hosts {
		if err := e.end(host, from); err != nil {
			return false, err
		}
		if err := e.give(host, to, 0); err != nil {
			return false, err
		}
		if !several {
			continue
		}
		if _, err := e.exec(`UPDATE hosts SET review = 1 WHERE name = ? AND (copies > 1 OR parts > 1)`, host); err != nil {
			return false, err
		}
	}
	e.touched[to] = true
	return true, nil
}

var numbered = regexp.MustCompile(`\b([Rr]obot|[Hh]ost) (\d+)\b`)

// named puts names for the planner's numbers; a group of hosts goes by its first.
func (p *picture) named(sentences []string, groups [][]int) []string {
	for k, s := range sentences {
		sentences[k] = numbered.ReplaceAllStringFunc(s, func(word string) string {
			kind, digits, _ := strings.Cut(word, " ")
			n, err := strconv.Atoi(digits)
			switch {
			case err != nil:
				return word
			case strings.EqualFold(kind, "robot") && n < len(p.robots):
				return kind + " " + p.robots[n]
			case strings.EqualFold(kind, "host") && n < len(groups):
				name := kind + " " + p.hosts[groups[n][0]]
				if more := len(groups[n]) - 1; more > 0 {
					name += fmt.Sprintf(" (and %d more of %s)", more, p.group[groups[n][0]])
				}
				return name
			}
			return word
		})
	}
	return sentences
}

// large gives the hosts that no robot can collect within the window.
func (p *picture) large(window time.Duration) []Large {
	if window <= 0 {
		return nil
	}
	ms := float64(window.Milliseconds())
	var list []Large
	for j, host := range p.hosts {
		if parts := balance.Split(p.whole, len(p.robots), j, ms, wire.MaxShares); parts > 1 {
			least := math.Inf(1)
			for i := range p.robots {
				least = min(least, p.whole(i, j))
			}
			list = append(list, Large{host, least, parts})
		}
	}
	return list
}
