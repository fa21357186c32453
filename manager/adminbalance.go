package manager

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/db"
	"sheaf/manager/balance"
)

// PathAdminBalance shows, by GET, how the work is shared out; by POST …/plan it shows what a
// plan would be made now, and by POST …/rebalance it makes one.
const PathAdminBalance = "/v1/admin/balance"

// BalanceResponse answers GET /v1/admin/balance.
type BalanceResponse struct {
	Plan     Plan         `json:"plan"` // the last that was made
	Robots   []Share      `json:"robots"`
	Backlogs []Backlog    `json:"backlogs"`
	Left     int64        `json:"left"`           // URLs known and not collected, at all robots at work
	Mean     float64      `json:"mean"`           // for each of them
	Tree     [][2]string  `json:"tree"`           // of the robots at work
	Flows    [][]EdgeFlow `json:"flows"`          // that would level their backlogs by their rates, in rounds
	Probes   int64        `json:"probes_waiting"` // distances that robots have been asked for
	Copies   []Copies     `json:"copies"`         // of hosts that are given to several robots, compared
}

// Share is a robot's part of the assignment.
type Share struct {
	Robot    string  `json:"robot"`
	Hosts    int64   `json:"hosts"`
	Expected float64 `json:"expected_ms"` // of transfer in a night
	Slow     float64 `json:"slow"`        // ms for what takes 1 ms at the middle robot
}

// EdgeFlow is what is to pass an edge of the tree.
type EdgeFlow struct {
	From string  `json:"from"`
	To   string  `json:"to"`
	URLs float64 `json:"urls"`
}

// HostCosts answers GET /v1/admin/hosts/{host}/costs: what the host cost each robot.
type HostCosts struct {
	Host   string     `json:"host"`
	Weight float64    `json:"weight_ms,omitempty"` // at the middle robot; 0: not measured
	Robots []HostCost `json:"robots"`
}

// HostCost is a host's cost at one robot.
type HostCost struct {
	Robot    string     `json:"robot"`
	KB       float64    `json:"kb"`        // of a night
	Distance float64    `json:"ms_per_kb"` // of the hours that are no outliers
	Hours    []HourCost `json:"hours"`
}

// HourCost is what came within one hour.
type HourCost struct {
	Hour     time.Time `json:"hour"`
	Requests int64     `json:"requests"`
	KB       float64   `json:"kb"`
	MS       int64     `json:"ms"`
	KBs      float64   `json:"kb_per_s"`
	Outlier  bool      `json:"outlier,omitempty"`
}

// RatesResponse answers GET /v1/admin/balance/rates.
type RatesResponse struct {
	Zone  string     `json:"zone"`
	Rates []HourRate `json:"rates"`
}

// HourRate is a robot's rate within an hour of the week.
type HourRate struct {
	Robot    string  `json:"robot"`
	Weekday  string  `json:"weekday"`
	Hour     int     `json:"hour"`
	Requests int64   `json:"requests"`
	KBs      float64 `json:"kb_per_s"` // of one transfer
}

func (m *Manager) adminBalance(w http.ResponseWriter, r *http.Request) error {
	answer, err := m.Shown(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, answer)
}

func (m *Manager) adminPlan(dry bool) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		plan, err := m.Rebalance(r.Context(), dry)
		if err != nil {
			return err
		}
		return writeJSON(w, http.StatusOK, plan)
	}
}

func (m *Manager) adminRates(w http.ResponseWriter, r *http.Request) error {
	rows, err := m.db.QueryContext(r.Context(), `SELECT robot, hour, requests, bytes, ms FROM rates ORDER BY robot, hour`)
	if err != nil {
		return err
	}
	defer rows.Close()
	answer := RatesResponse{Zone: m.opt.Balance.Zone.String(), Rates: []HourRate{}}
	for rows.Next() {
		var h HourRate
		var hour int
		var bytes, ms int64
		if err := rows.Scan(&h.Robot, &hour, &h.Requests, &bytes, &ms); err != nil {
			return err
		}
		h.Weekday, h.Hour = time.Weekday((hour/24 + 1) % 7).String()[:3], hour%24
		h.KBs = perSecond(bytes, ms)
		answer.Rates = append(answer.Rates, h)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, answer)
}

func perSecond(bytes, ms int64) float64 { return float64(bytes) / 1024 / (float64(max(ms, 1)) / 1000) }

func (m *Manager) adminHostCosts(w http.ResponseWriter, r *http.Request) error {
	answer, err := m.HostCosts(r.Context(), mux.Vars(r)["host"])
	if err != nil {
		return adminError(err)
	}
	return writeJSON(w, http.StatusOK, answer)
}

// HostCosts gives what a host cost the robots, hour by hour.
func (m *Manager) HostCosts(ctx context.Context, host string) (HostCosts, error) {
	answer := HostCosts{Host: host, Robots: []HostCost{}}
	var weight sql.NullFloat64
	err := m.db.QueryRowContext(ctx, `SELECT weight FROM hosts WHERE name = ?`, host).Scan(&weight)
	if errors.Is(err, sql.ErrNoRows) {
		return answer, fmt.Errorf("%s: %w", host, ErrUnknownHost)
	}
	if err != nil {
		return answer, err
	}
	answer.Weight = weight.Float64
	rows, err := m.db.QueryContext(ctx, `SELECT robot, samples FROM costs WHERE host = ? AND samples IS NOT NULL ORDER BY robot`, host)
	if err != nil {
		return answer, err
	}
	defer rows.Close()
	for rows.Next() {
		var c HostCost
		var blob []byte
		if err := rows.Scan(&c.Robot, &blob); err != nil {
			return answer, err
		}
		list, err := parseSamples(blob)
		if err != nil {
			return answer, fmt.Errorf("%s at %s: %w", host, c.Robot, err)
		}
		var odd []sample
		c.Distance, odd = list.distance()
		c.KB = list.nightly(m.opt.Balance.Zone)
		for _, s := range list {
			c.Hours = append(c.Hours, HourCost{time.Unix(s.hour*3600, 0).UTC(), s.requests, float64(s.bytes) / 1024, s.ms, perSecond(s.bytes, s.ms), slices.Contains(odd, s)})
		}
		answer.Robots = append(answer.Robots, c)
	}
	return answer, rows.Err()
}

// Shown gives how the work is shared out now.
func (m *Manager) Shown(ctx context.Context) (answer BalanceResponse, err error) {
	if answer.Plan, err = m.lastPlan(ctx); err != nil {
		return answer, err
	}
	err = m.transact(ctx, &sql.TxOptions{ReadOnly: true}, func(tx *sql.Tx) error {
		loads, err := (&edit{ctx: ctx, tx: tx}).sumUp()
		for _, l := range loads {
			answer.Robots = append(answer.Robots, Share{l.robot, l.hosts, l.ms, l.slow})
		}
		return err
	})
	if err != nil {
		return answer, fmt.Errorf("balance: %w", err)
	}
	if answer.Backlogs, err = m.Backlogs(ctx); err != nil {
		return answer, err
	}
	if err := m.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM probes WHERE done = 0`).Scan(&answer.Probes); err != nil {
		return answer, err
	}
	if answer.Copies, err = m.Copies(ctx); err != nil {
		return answer, err
	}
	return answer, m.showFlows(ctx, &answer)
}

// showFlows works out what would pass the edges of the tree now.
func (m *Manager) showFlows(ctx context.Context, answer *BalanceResponse) error {
	now := time.Now()
	active := slices.DeleteFunc(slices.Clone(answer.Backlogs), func(b Backlog) bool { return !b.active(now) })
	answer.Tree, answer.Flows = [][2]string{}, [][]EdgeFlow{}
	if len(active) == 0 {
		return nil
	}
	loads := make([]float64, len(active))
	for i, b := range active {
		loads[i] = float64(b.Left)
		answer.Left += b.Left
	}
	answer.Mean = float64(answer.Left) / float64(len(active))
	tree, err := m.tree(ctx, active)
	if err != nil {
		return err
	}
	for i, near := range tree {
		for _, k := range near {
			if i < k {
				answer.Tree = append(answer.Tree, [2]string{active[i].Robot, active[k].Robot})
			}
		}
	}
	for _, round := range balance.Shipping(tree, loads, rates(active)) {
		var flows []EdgeFlow
		for _, s := range round {
			if s.Load >= 1 {
				flows = append(flows, EdgeFlow{active[s.From].Robot, active[s.To].Robot, s.Load})
			}
		}
		if flows != nil {
			answer.Flows = append(answer.Flows, flows)
		}
	}
	return nil
}

func (m *Manager) lastPlan(ctx context.Context) (p Plan, err error) {
	var made int64
	var why string
	err = m.db.QueryRowContext(ctx, `SELECT made, makespan, bound, moved, explain FROM plans`).Scan(&made, &p.Makespan, &p.Bound, &p.Moved, &why)
	if why != "" {
		p.Why = strings.Split(why, "\n")
	}
	p.Made = db.Time(made)
	return p, err
}

func (m *Manager) adminPause(paused bool) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := m.Pause(r.Context(), mux.Vars(r)["name"], paused); err != nil {
			return adminError(err)
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
}

func (m *Manager) adminUpgrade(w http.ResponseWriter, r *http.Request) error {
	if err := m.Upgrade(r.Context(), mux.Vars(r)["name"]); err != nil {
		return adminError(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
