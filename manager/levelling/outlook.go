package levelling

import (
	"context"
	"database/sql"
	"math"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
)

// Outlook is when a robot is to end its night by the last plan.
type Outlook struct {
	RobotEnd
	At time.Time `json:"at,omitzero"` // by its window's hours, as far as they are known; zero: not within a month
}

// outlooks returns when the robots that take part are to end, by name.
func (l *Leveller) outlooks(ctx context.Context, now time.Time) ([]Outlook, error) {
	now = now.In(l.opt.Zone)
	return db.List(ctx, l.db, func(rows *sql.Rows, o *Outlook) error {
		var phase wire.Phase
		var worked float64
		var hours week
		if err := rows.Scan(&o.Robot, &o.MS, &o.Binds, &o.Host, &phase, &worked, &hours); err != nil {
			return err
		}
		left, from := o.MS, now
		switch phase {
		case wire.PhaseIdle, wire.PhaseResting:
			from = hours.opens(now)
		default:
			left = max(0, o.MS-worked)
		}
		o.At, _ = hours.end(from, time.Duration(left*float64(time.Millisecond)))
		return nil
	}, `
		SELECT p.robot, p.predicted, p.binds, p.host, COALESCE(b.phase, ''), COALESCE(b.worked, 0), COALESCE(b.week, '')
		FROM paces p JOIN robots r ON r.name = p.robot LEFT JOIN heartbeats b ON b.robot = p.robot
		WHERE r.subscribed = 1 AND r.lapsed = 0 AND p.binds <> '' ORDER BY p.robot`)
}

// opens returns when the window opens the next time after it was shut. If nothing is known of when
// it is shut, that is now.
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

const (
	weekdayNights = 14 // of a robot, before its weekdays are told apart
	weekdayMost   = 2  // factor between a weekday and the mean
)

// readWeekday reads how long the robots' transfers take on the weekday of the coming night, as
// factors of their means. Paper 001 (table 8) saw them differ by 2.9.
func (s *snapshot) readWeekday(ctx context.Context, tx *sql.Tx, now time.Time) error {
	s.weekday = make([]float64, len(s.robots))
	for i := range s.weekday {
		s.weekday[i] = 1
	}
	today := (int(now.Weekday()) + 6) % 7
	return db.Each(ctx, tx, func(rows *sql.Rows) error {
		var robot string
		var bytes, ms, dayBytes, dayMS float64
		if err := rows.Scan(&robot, &bytes, &ms, &dayBytes, &dayMS); err != nil {
			return err
		}
		if i, ok := s.robot(robot); ok && bytes > 0 && ms > 0 && dayBytes > 0 && dayMS > 0 {
			factor := dayMS / dayBytes / (ms / bytes)
			s.weekday[i] = math.Max(1.0/weekdayMost, math.Min(weekdayMost, factor))
		}
		return nil
	}, `
		SELECT t.robot, SUM(t.bytes), SUM(t.ms), SUM(CASE WHEN t.hour / 24 = ? THEN t.bytes ELSE 0 END), SUM(CASE WHEN t.hour / 24 = ? THEN t.ms ELSE 0 END)
		FROM rates t WHERE (SELECT COUNT(*) FROM nights n WHERE n.robot = t.robot) >= ? GROUP BY t.robot`, today, today, weekdayNights)
}
