package levelling

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/transfers"
	"sheaf/internal/wire"
)

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
