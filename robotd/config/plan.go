package config

import (
	"fmt"
	"time"

	"sheaf/internal/window"
)

// Plan has the parsed settings about time.
type Plan struct {
	Window *window.Schedule // when hosts may be visited
	Every  time.Duration    // time between the starts of two cycles; 0: one cycle a day
	LogAt  time.Duration    // time since midnight at which the log is sent
}

// NextCycle returns the time at which the next cycle begins, given when the last one began and
// ended. Daily cycles begin when the window first opens on a later day than the last cycle began.
// It returns false if the window never opens.
func (p Plan) NextCycle(began, ended time.Time) (time.Time, bool) {
	from := began.Add(p.Every)
	if p.Every <= 0 {
		from = p.Midnight(began, 1)
	}
	if from.Before(ended) {
		from = ended
	}
	return p.Window.Next(from)
}

// NextLog returns the first time after t at which to send the log.
func (p Plan) NextLog(t time.Time) time.Time {
	for day := 0; ; day++ {
		if at := p.onClock(t, day); at.After(t) {
			return at
		}
	}
}

// onClock returns the time at which clocks in the window's zone show LogAt, the given number of
// days after t's day.
func (p Plan) onClock(t time.Time, days int) time.Time {
	t = t.In(p.Window.Location())
	return time.Date(t.Year(), t.Month(), t.Day()+days, 0, 0, int(p.LogAt/time.Second), 0, t.Location())
}

// Midnight returns the beginning of a day in the window's zone, the given number of days after t's.
func (p Plan) Midnight(t time.Time, days int) time.Time {
	t = t.In(p.Window.Location())
	return time.Date(t.Year(), t.Month(), t.Day()+days, 0, 0, 0, 0, t.Location())
}

// ParseClock parses a time of day such as "09:00" as the time since midnight.
func ParseClock(s string) (time.Duration, error) {
	t, err := time.Parse("15:04", s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a time of the day such as 09:00", s)
	}
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, nil
}

// OpenTime returns for how long the window is open between two times, and the end of its last
// opening between them. That is the second time if the window is open then, and the first time if
// the window does not open.
func (p Plan) OpenTime(from, to time.Time) (open time.Duration, last time.Time) {
	last = from
	for at := from; at.Before(to); {
		begin, ok := p.Window.Next(at)
		if !ok || !begin.Before(to) {
			break
		}
		end := p.Window.Until(begin)
		if end.IsZero() || end.After(to) {
			end = to
		}
		open += end.Sub(begin)
		at, last = end, end
	}
	return open, last
}
