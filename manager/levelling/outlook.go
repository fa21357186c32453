package levelling

import (
	"context"
	"database/sql"
	"math"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
)

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
