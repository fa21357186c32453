package levelling

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/transfers"
	"sheaf/internal/wire"
	"sheaf/manager/balance"
)

// Night is one cycle of a robot: when the plan expected it to end, and when it did.
type Night struct {
	Robot     string       `json:"robot"`
	Cycle     int64        `json:"cycle"`
	Began     time.Time    `json:"began"`
	Ended     time.Time    `json:"ended,omitzero"`         // zero: not yet
	Worked    float64      `json:"worked_ms"`              // time in which the robot collected
	Predicted float64      `json:"predicted_ms,omitempty"` // by the plan before it; 0: not predicted
	Binds     balance.Bind `json:"binds,omitempty"`        // the limit that was expected to keep it from ending sooner
}

// keepNights is the number of cycles kept of each robot.
const keepNights = 28

// noteNight updates the record of the robot's cycle after a heartbeat.
func noteNight(ctx context.Context, tx *sql.Tx, robot string, before, now pulse, hb wire.Heartbeat) error {
	if hb.Cycle == 0 {
		return nil
	}
	if before.at == 0 || before.cycle != hb.Cycle {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO nights (robot, cycle, began, ended, worked, predicted, binds)
			SELECT r.name, ?, ?, 0, 0, COALESCE(p.predicted, 0), COALESCE(p.binds, '')
			FROM robots r LEFT JOIN paces p ON p.robot = r.name WHERE r.name = ?
			ON CONFLICT (robot, cycle) DO NOTHING`, hb.Cycle, now.at, robot)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM nights WHERE robot = ? AND cycle <= ?`, robot, hb.Cycle-keepNights)
		if err != nil || before.at == 0 || before.cycle == 0 {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE nights SET ended = ?, worked = ? WHERE robot = ? AND cycle = ? AND ended = 0`,
			before.at, before.worked, robot, before.cycle)
		return err
	}
	if before.phase == wire.PhaseCollecting && hb.Left == 0 && (hb.Phase == wire.PhaseIdle || hb.Phase == wire.PhaseResting) {
		_, err := tx.ExecContext(ctx, `UPDATE nights SET ended = ?, worked = ? WHERE robot = ? AND cycle = ?`, now.at, now.worked, robot, hb.Cycle)
		return err
	}
	return nil
}

// learnAll calls learn for every robot's present cycle.
func (l *Leveller) learnAll(ctx context.Context) error {
	robots, err := db.Column[string](ctx, l.db, `SELECT robot FROM heartbeats WHERE worked > 0 ORDER BY robot`)
	for _, robot := range robots {
		if err == nil {
			err = db.Transact(ctx, l.db, nil, func(tx *sql.Tx) error { return learn(ctx, tx, robot) })
		}
	}
	return err
}

// learn updates the robot's limits from its cycle, and the gaps of hosts where they are longer than
// usual. It may be called several times for one cycle.
func learn(ctx context.Context, tx *sql.Tx, robot string) error {
	seen, hosts, err := readSeen(ctx, tx, robot)
	if err != nil || len(seen.Addresses) == 0 || seen.Transfers == 0 { // nothing, or too little to learn from
		return err
	}
	paces, err := readPaces(ctx, tx)
	if err != nil {
		return err
	}
	others := math.Inf(1)
	for name, p := range paces {
		if name != robot && p.Gap >= 0 {
			others = min(others, p.Gap)
		}
	}
	before := paces[robot]
	pace := seen.Learn(before, others)
	_, err = tx.ExecContext(ctx, `
		INSERT INTO paces (robot, gap, width, width_binds, line, line_binds, drift) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (robot) DO UPDATE SET gap = excluded.gap, width = excluded.width, width_binds = excluded.width_binds,
			line = excluded.line, line_binds = excluded.line_binds, drift = excluded.drift`,
		robot, pace.Gap, pace.Width.Most, pace.Width.Binds, pace.Line.Most, pace.Line.Binds, pace.Drift)
	if err != nil {
		return err
	}
	return learnGaps(ctx, tx, seen, hosts, pace.Gap)
}

// readSeen reads what the robot's heartbeats say of its cycle, and the hosts at each address.
func readSeen(ctx context.Context, tx *sql.Tx, robot string) (seen balance.Seen, hosts [][]string, err error) {
	err = tx.QueryRowContext(ctx, `SELECT worked, transfers, flow FROM heartbeats WHERE robot = ?`, robot).Scan(&seen.Worked, &seen.Transfers, &seen.Flow)
	if errors.Is(err, sql.ErrNoRows) || err == nil && seen.Worked == 0 {
		return balance.Seen{}, nil, nil
	}
	if err != nil {
		return seen, nil, err
	}
	number := map[string]int{} // by group: index of its address
	err = db.Each(ctx, tx, func(rows *sql.Rows) error {
		var host, group string
		var a balance.SeenAddress
		if err := rows.Scan(&host, &group, &a.Began, &a.Ended, &a.Pages, &a.KB, &a.MS, &a.Set); err != nil {
			return err
		}
		n, ok := number[group]
		if !ok {
			n = len(hosts)
			number[group] = n
			seen.Addresses, hosts = append(seen.Addresses, balance.SeenAddress{Began: a.Began}), append(hosts, nil)
		}
		seen.Addresses[n].Add(a)
		hosts[n] = append(hosts[n], host)
		return nil
	}, `
		SELECT p.host, h.grp, p.began, CASE WHEN p.ended > 0 THEN p.ended ELSE ? END, p.pages, p.bytes / 1024.0, p.ms, h.interval_ms > 0
		FROM progress p JOIN hosts h ON h.name = p.host WHERE p.robot = ? AND (p.ended = 0 OR p.ended >= p.began) ORDER BY p.host`, int64(seen.Worked), robot)
	return seen, hosts, err
}

// learnGaps stores gaps that are much longer than usual, and deletes the others. If the robot was
// bound by its width or its line, all addresses had to wait, and only a gap shorter than the stored
// one says something.
func learnGaps(ctx context.Context, tx *sql.Tx, seen balance.Seen, hosts [][]string, usual float64) error {
	const much = 1.3
	usual = max(usual, 0)
	waited := seen.Busy() || seen.LeastGap() > usual*much
	for n, a := range seen.Addresses {
		gap := a.Gap()
		if gap > 0 && gap <= usual*much {
			gap = 0
		}
		for _, host := range hosts[n] {
			var err error
			switch {
			case gap == 0:
				_, err = tx.ExecContext(ctx, `UPDATE hosts SET gap = NULL WHERE name = ? AND gap IS NOT NULL`, host)
			case waited:
				_, err = tx.ExecContext(ctx, `UPDATE hosts SET gap = ? WHERE name = ? AND gap > ?`, gap, host, gap)
			case a.Pages >= balance.FewPages:
				_, err = tx.ExecContext(ctx, `UPDATE hosts SET gap = ? WHERE name = ? AND (gap IS NULL OR ABS(gap - ?) > 0.1 * gap)`, gap, host, gap)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// readPaces reads the robots' known paces, by name.
func readPaces(ctx context.Context, q db.Queryer) (map[string]balance.Pace, error) {
	return db.Map(ctx, q, func(rows *sql.Rows, robot *string, p *balance.Pace) error {
		return rows.Scan(robot, &p.Gap, &p.Width.Most, &p.Width.Binds, &p.Line.Most, &p.Line.Binds, &p.Drift)
	}, `SELECT robot, gap, width, width_binds, line, line_binds, drift FROM paces`)
}

// readNights reads the last cycles of each robot, the latest first.
func readNights(ctx context.Context, q db.Queryer, most int) (map[string][]Night, error) {
	nights := map[string][]Night{}
	err := db.Each(ctx, q, func(rows *sql.Rows) error {
		var n Night
		err := rows.Scan(&n.Robot, &n.Cycle, db.At(&n.Began), db.At(&n.Ended), &n.Worked, &n.Predicted, &n.Binds)
		if list := nights[n.Robot]; len(list) < most {
			nights[n.Robot] = append(list, n)
		}
		return err
	}, `SELECT robot, cycle, began, ended, worked, predicted, binds FROM nights ORDER BY robot, cycle DESC`)
	return nights, err
}

// Point counts what a robot did in one hour, day or month (paper 000, figures 4.2 to 4.4).
type Point struct {
	Begin time.Time `json:"begin"`
	Robot string    `json:"robot"`
	Pages int64     `json:"pages"` // collected
	Links int64     `json:"links"` // found in these pages
	Load  int64     `json:"load"`  // URLs known and not collected: the mean of the heartbeats
	beats int64
}

// fullSeries is the value at which a count of an hour or a day stops growing. No robot comes
// near it, and the days of a month add up to less than an int64 holds.
const fullSeries = 1 << 57

// noteSeries adds a heartbeat to the counts of the robot's hour and day. Hours are kept for
// transfers.KeepHours. Days are kept for ever: 365 rows for each robot and year.
func noteSeries(ctx context.Context, tx *sql.Tx, zone *time.Location, robot string, before, now pulse, hb wire.Heartbeat) error {
	since := func(had, has int64) int64 { // counts start again with each cycle, and when the program starts
		if before.at == 0 || before.cycle != hb.Cycle || has < had {
			return has
		}
		return has - had
	}
	pages, links := since(before.pages, hb.Pages), since(before.links, hb.Links)
	at := db.Time(now.at)
	for _, span := range []string{transfers.Hour, transfers.Day} {
		f := transfers.PeriodFilter{By: span, Since: at.In(zone)}
		begin := db.Millis(f.Beginning(at))
		n, err := db.Exec(ctx, tx, `UPDATE robot_series SET pages = CASE WHEN pages < ? THEN pages + ? ELSE pages END, links = CASE WHEN links < ? THEN links + ? ELSE links END,
				load = CASE WHEN load < ? THEN load + ? ELSE load END, beats = beats + 1 WHERE robot = ? AND span = ? AND begin = ?`,
			fullSeries, pages, fullSeries, links, fullSeries, hb.Left, robot, span, begin)
		if err == nil && n == 0 {
			_, err = tx.ExecContext(ctx, `INSERT INTO robot_series (robot, span, begin, pages, links, load, beats) VALUES (?, ?, ?, ?, ?, ?, 1)`,
				robot, span, begin, pages, links, hb.Left)
			if err == nil {
				_, err = tx.ExecContext(ctx, `DELETE FROM robot_series WHERE robot = ? AND span = 'hour' AND begin < ?`, robot, db.Millis(at.Add(-transfers.KeepHours)))
			}
		}
		if err != nil {
			return fmt.Errorf("series: %w", err)
		}
	}
	return nil
}

// Series returns what robots did, by time and robot. f.Who names a robot; empty: all robots.
// f.Direction and f.Each are ignored. It has no points for times in which a robot sent no
// heartbeat.
func (l *Leveller) Series(ctx context.Context, f transfers.PeriodFilter) ([]Point, error) {
	span := transfers.Day
	if f.By == transfers.Hour {
		span = f.By
	}
	until := f.Until
	if until.IsZero() {
		until = time.Now().Add(time.Hour)
	}
	type key struct {
		begin int64
		robot string
	}
	sums := make(map[key]*Point)
	err := db.Each(ctx, l.db, func(rows *sql.Rows) error {
		var p Point
		if err := rows.Scan(&p.Robot, db.At(&p.Begin), &p.Pages, &p.Links, &p.Load, &p.beats); err != nil {
			return err
		}
		p.Begin = f.Beginning(p.Begin)
		sum := sums[key{p.Begin.Unix(), p.Robot}]
		if sum == nil {
			sums[key{p.Begin.Unix(), p.Robot}] = &p
			return nil
		}
		sum.Pages, sum.Links, sum.Load, sum.beats = sum.Pages+p.Pages, sum.Links+p.Links, sum.Load+p.Load, sum.beats+p.beats
		return nil
	}, `SELECT robot, begin, pages, links, load, beats FROM robot_series WHERE span = ? AND begin >= ? AND begin < ? AND (robot = ? OR '' = ?)`,
		span, db.Millis(f.Beginning(f.Since)), db.Millis(until), f.Who, f.Who)
	if err != nil {
		return nil, fmt.Errorf("series: %w", err)
	}
	list := []Point{}
	for _, p := range sums {
		p.Load /= p.beats
		list = append(list, *p)
	}
	slices.SortFunc(list, func(a, b Point) int { return cmp.Or(a.Begin.Compare(b.Begin), strings.Compare(a.Robot, b.Robot)) })
	return list, nil
}
