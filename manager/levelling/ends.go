package levelling

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
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
		usual = balance.Pace{Gap: balance.Median(gaps), Width: balance.Limit{Most: balance.Median(widths), Binds: true}}
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

// Outlook says when a robot is to end its night by the last plan.
type Outlook struct {
	RobotEnd
	At time.Time `json:"at,omitzero"` // by the known hours of its window; zero: not within a month
}

// outlooks returns the outlooks of the robots that take part, by name.
func (l *Leveller) outlooks(ctx context.Context, now time.Time) ([]Outlook, error) {
	now = now.In(l.opt.Zone)
	return db.List(ctx, l.db, func(rows *sql.Rows, o *Outlook) error {
		var phase wire.Phase
		var worked float64
		var hours week
		if err := rows.Scan(&o.Robot, &o.MS, &o.Binds, &o.Host, &phase, &worked, &hours); err != nil {
			return err
		}
		from, coming := hours.night(phase, now)
		left := o.MS
		if !coming {
			left = max(0, o.MS-worked)
		}
		o.At, _ = hours.end(from, time.Duration(left*float64(time.Millisecond)))
		return nil
	}, `
		SELECT p.robot, p.predicted, p.binds, p.host, COALESCE(b.phase, ''), COALESCE(b.worked, 0), COALESCE(b.week, '')
		FROM paces p JOIN robots r ON r.name = p.robot LEFT JOIN heartbeats b ON b.robot = p.robot
		WHERE r.subscribed = 1 AND r.lapsed = 0 AND p.binds <> '' ORDER BY p.robot`)
}

// opens returns the next time at which the window opens after being shut, or the time now if no
// hour is known to be shut.
func (w week) opens(now time.Time) time.Time {
	at, shut := now, false
	for range hoursOfWeek {
		switch {
		case !w.open(hourOfWeek(at)):
			shut = true
		case shut:
			return at
		}
		at = at.Truncate(time.Hour).Add(time.Hour)
	}
	return now
}

// night returns the time at which a robot in a phase goes on with its hosts. coming is true if that
// is in its next night, and false if the robot is in a night now.
func (w week) night(phase wire.Phase, now time.Time) (from time.Time, coming bool) {
	if phase == wire.PhaseIdle || phase == wire.PhaseResting {
		return w.opens(now), true
	}
	return now, false
}

const (
	weekdayNights = 14 // a robot's weekdays are told apart after so many nights
	weekdayMost   = 2  // largest factor between a weekday and the mean
)

// readWeekday reads each robot's weekday factor: its transfer time on the weekday of its night, as
// a multiple of its mean. For a robot that has ended its night, that is the weekday on which its
// window next opens. Paper 001 (table 8) saw weekdays differ by 2.9.
func (s *snapshot) readWeekday(ctx context.Context, tx *sql.Tx, now time.Time) error {
	s.weekday = make([]float64, len(s.robots))
	for i := range s.weekday {
		s.weekday[i] = 1
	}
	night := make([]int, len(s.robots)) // by robot: the weekday of its night; 0 is Monday
	for i := range night {
		night[i] = hourOfWeek(now) / 24
	}
	err := db.Each(ctx, tx, func(rows *sql.Rows) error {
		var robot string
		var phase wire.Phase
		var hours week
		err := rows.Scan(&robot, &phase, &hours)
		if i, ok := s.robot(robot); ok && err == nil {
			from, _ := hours.night(phase, now)
			night[i] = hourOfWeek(from) / 24
		}
		return err
	}, `SELECT robot, phase, week FROM heartbeats`)
	if err != nil {
		return err
	}
	type total struct{ bytes, ms float64 }
	all, tonight := make([]total, len(s.robots)), make([]total, len(s.robots))
	err = db.Each(ctx, tx, func(rows *sql.Rows) error {
		var robot string
		var day int
		var of total
		err := rows.Scan(&robot, &day, &of.bytes, &of.ms)
		if i, ok := s.robot(robot); ok && err == nil {
			all[i].bytes, all[i].ms = all[i].bytes+of.bytes, all[i].ms+of.ms
			if day == night[i] {
				tonight[i] = of
			}
		}
		return err
	}, `
		SELECT t.robot, t.hour / 24, SUM(t.bytes), SUM(t.ms) FROM rates t
		WHERE (SELECT COUNT(*) FROM nights n WHERE n.robot = t.robot) >= ? GROUP BY t.robot, t.hour / 24`, weekdayNights)
	for i, mean := range all {
		if on := tonight[i]; mean.bytes > 0 && mean.ms > 0 && on.bytes > 0 && on.ms > 0 {
			factor := on.ms / on.bytes / (mean.ms / mean.bytes)
			s.weekday[i] = math.Max(1.0/weekdayMost, math.Min(weekdayMost, factor))
		}
	}
	return err
}
