package levelling

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"sheaf/manager/assign"
	"sheaf/manager/balance"
)

// RobotEnd says when a robot is to end its night, and why not sooner.
type RobotEnd struct {
	Robot string       `json:"robot"`
	MS    float64      `json:"ms"`              // ms of collecting
	Binds balance.Bind `json:"binds,omitempty"` // the limit that keeps it from ending sooner; empty: it has nothing to do
	Host  string       `json:"host,omitempty"`  // the host with its longest chain of visits

	// If the interval keeps it from ending sooner: when it would end otherwise, in ms of
	// collecting.
	HalfInterval float64 `json:"half_interval_ms,omitempty"` // with half the interval at the address of Host
	InParts      float64 `json:"in_parts_ms,omitempty"`      // if two robots shared Host and its interval
}

// readPaces reads the limits of the robots. A robot that was never seen at work gets the medians of
// the other robots. If no robot was seen at work, each is assumed to make one transfer at a time.
func (s *snapshot) readPaces(ctx context.Context, tx *sql.Tx) error {
	known, err := readPaces(ctx, tx)
	if err != nil {
		return err
	}
	var widths, gaps []float64
	for _, p := range known {
		if p.Width.Most > 0 {
			widths, gaps = append(widths, p.Width.Most), append(gaps, p.Gap)
		}
	}
	usual := balance.Pace{Width: balance.Limit{Most: 1, Binds: true}}
	if len(widths) > 0 {
		slices.Sort(widths)
		slices.Sort(gaps)
		usual = balance.Pace{Gap: gaps[len(gaps)/2], Width: balance.Limit{Most: widths[len(widths)/2], Binds: true}}
	}
	s.paces = make([]balance.Pace, len(s.robots))
	for i, robot := range s.robots {
		if s.paces[i] = known[robot]; s.paces[i].Width.Most == 0 {
			s.paces[i] = usual
		}
	}
	return nil
}

// work returns what a robot has to do for a host, or for its share of it.
func (s *snapshot) work(robot, host int) balance.Work {
	parts := float64(s.parts[host])
	kb, pages := s.kb[host], s.pages[host]
	if kb == 0 {
		kb, pages = s.unmeasured.kb, s.unmeasured.pages
	}
	return balance.Work{Pages: pages / parts, KB: kb / parts, MS: s.cost(robot, host) * s.weekday[robot], Gap: s.gap[host].seen * parts, Set: s.gap[host].set * parts}
}

// time returns by how many ms the host, or the robot's share of it, lengthens the robot's night.
func (s *snapshot) time(robot, host int) float64 { return s.paces[robot].Time(s.work(robot, host)) }

// rate says by how many ms an unmeasured host lengthens a robot's night.
type rate struct {
	ms float64 // for each ms that the host takes at the median robot
	kb float64 // for each KB of the host
}

// estimateRates computes the robots' rates, so that addTimes is quick. It also sorts the
// measurements of each host by robot, as addTimes needs them.
func (s *snapshot) estimateRates() {
	s.rates = make([]rate, len(s.robots))
	for i, p := range s.paces {
		s.rates[i] = rate{
			ms: p.Time(balance.Work{MS: s.slow[i] * max(s.estimates.raise, 1) * s.weekday[i]}),
			kb: p.Time(balance.Work{KB: 1}),
		}
	}
	for _, list := range s.measured {
		slices.SortFunc(list, func(a, b distance) int { return a.robot - b.robot })
	}
}

// addTimes adds to each robot's ms what time returns for the robot and the host.
func (s *snapshot) addTimes(host int, ms []float64) {
	kb := cmp.Or(s.kb[host], s.unmeasured.kb)
	weight := s.weight[host] / float64(s.parts[host])
	kb /= float64(s.parts[host])
	from := 0
	for _, d := range s.measured[host] {
		s.addEstimates(weight, kb, ms[from:d.robot], from)
		ms[d.robot] += s.time(d.robot, host)
		from = d.robot + 1
	}
	s.addEstimates(weight, kb, ms[from:], from)
}

// addEstimates is addTimes for robots that have not measured the host. They begin at number from,
// and ms has their values only.
func (s *snapshot) addEstimates(weight, kb float64, ms []float64, from int) {
	for i, r := range s.rates[from : from+len(ms)] {
		t := r.ms * weight
		if line := r.kb * kb; line > t {
			t = line
		}
		ms[i] += t
	}
}

// itemWork returns what a robot has to do for an item: the hosts of an address.
func (s *snapshot) itemWork(it *items, robot, n int) (w balance.Work) {
	for k, j := range it.hosts[n] {
		if more := s.work(robot, j); k == 0 {
			w = more
		} else {
			w = w.Join(more)
		}
	}
	return w
}

// ends returns the end of each robot's night if the plan is carried out.
func (s *snapshot) ends(it *items, plan balance.Plan) []RobotEnd {
	mine := make([][]int, len(s.robots))
	for n, i := range plan {
		if i >= 0 {
			mine[i] = append(mine[i], n)
		}
	}
	ends := make([]RobotEnd, len(s.robots))
	for i, robot := range s.robots {
		work := make([]balance.Work, len(mine[i]))
		for k, n := range mine[i] {
			work[k] = s.itemWork(it, i, n)
		}
		e := s.paces[i].End(work)
		ends[i] = RobotEnd{Robot: robot, MS: e.MS, Binds: e.Binds}
		if e.Item >= 0 {
			ends[i].Host = s.hosts[it.hosts[mine[i][e.Item]][0]]
		}
		if e.Binds == balance.ByInterval {
			ends[i].HalfInterval, ends[i].InParts = s.paces[i].Quicker(work, e.Item)
		}
	}
	return ends
}

// bound returns a lower bound on the end of every plan, in ms. The result's own bound may be too
// high: it adds each host's time at its robot's scarcer limit, but a robot's transfers and its
// bytes add up separately.
func (s *snapshot) bound(it *items, r balance.Result) float64 {
	if !slices.ContainsFunc(s.paces, func(p balance.Pace) bool { return p.Line.Most > 0 }) {
		return r.Bound // only one limit is known
	}
	width, line := *s, *s
	width.paces, line.paces = slices.Clone(s.paces), slices.Clone(s.paces)
	for i := range s.paces {
		width.paces[i].Line, line.paces[i].Width = balance.Limit{}, balance.Limit{}
	}
	width.estimateRates()
	line.estimateRates()
	transfers, bytes := make([]float64, len(s.robots)), make([]float64, len(s.robots))
	for n, i := range r.Plan {
		w := s.itemWork(it, i, n)
		transfers[i] += width.paces[i].Time(w)
		bytes[i] += line.paces[i].Time(w)
	}
	halves := balance.Halves{A: it.row(&width), B: it.row(&line), ByB: make([]bool, len(s.robots))}
	for i := range s.robots {
		halves.ByB[i] = bytes[i] > transfers[i]
	}
	return it.costs.Bound(halves, r.Prices, it.apart)
}

// last returns the latest of the ends.
func last(ends []RobotEnd) (e RobotEnd) {
	for _, r := range ends {
		if r.MS > e.MS {
			e = r
		}
	}
	return e
}

// String returns a sentence for the robot that ends last: when it ends, and why not sooner.
func (e RobotEnd) String() string {
	after := func(ms float64) time.Duration {
		return time.Duration(ms * float64(time.Millisecond)).Round(time.Second)
	}
	why := map[balance.Bind]string{
		balance.ByInterval: "the intervals between the visits to the address of " + e.Host + " take that long. At half the interval, if the host's owner allows it (sheaf host set), it would end after " +
			after(e.HalfInterval).String() + "; if two robots shared the host, and its interval, after " + after(e.InParts).String(),
		balance.ByWidth: "it makes as many transfers at once as it can",
		balance.ByLine:  "its line is full",
	}[e.Binds]
	return fmt.Sprintf("Robot %s ends last, after %v of collecting: %s.", e.Robot, after(e.MS), why)
}

// keepEnds stores when the robots are to end.
func keepEnds(ctx context.Context, t *assign.Tx, ends []RobotEnd) error {
	for _, e := range ends {
		_, err := t.Exec(ctx, `
			INSERT INTO paces (robot, gap, width, width_binds, line, line_binds, predicted, binds, host) VALUES (?, -1, 0, 0, 0, 0, ?, ?, ?)
			ON CONFLICT (robot) DO UPDATE SET predicted = excluded.predicted, binds = excluded.binds, host = excluded.host`,
			e.Robot, e.MS, string(e.Binds), e.Host)
		if err != nil {
			return err
		}
	}
	return nil
}
