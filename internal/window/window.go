// Package window parses and evaluates weekly schedules: when an account may download, when a batch
// may be published, when a robot may upload.
//
// A schedule is written as people say it:
//
//	Mon-Fri 02:00-08:00; Sat,Sun 02:00-22:00 Asia/Tokyo
//	Mon-Fri 00:00-12:00,13:00-24:00 Asia/Tokyo
//	22:00-06:00
//	always
//	never
//
//	schedule = "always" | "never" | rule { ";" rule } [ zone ]
//	rule     = [ days ] range { "," range }
//	days     = day [ "-" day ] { "," day [ "-" day ] }       without days: every day
//	day      = "Mon" | "Tue" | "Wed" | "Thu" | "Fri" | "Sat" | "Sun"
//	range    = hh:mm "-" hh:mm                               to is not included; 24:00 ends a day
//	zone     = an IANA name; UTC where none is given
//
// A range whose end is before its start crosses midnight and belongs to the day on which it starts.
// The zone is written once, at the end, and applies to all rules.
//
// Whether a schedule is open depends only on the local time in its zone. When clocks go forward, a
// range within the skipped hour does not occur that day, and a range that begins in it opens at the
// jump. When clocks go back, a range within the repeated hour occurs twice.
package window

import "time"

const day = 24 * time.Hour

// horizon limits the search for the next change. A schedule repeats weekly, but a change of clocks
// may skip a week's only range.
const horizon = 15 * day

// Schedule is a weekly set of times. It is immutable and may be used concurrently. A nil Schedule
// is always open.
type Schedule struct {
	rules []rule
	zone  *time.Location
}

// rule is one clause of the grammar.
type rule struct {
	days   weekdays
	ranges []span
}

// weekdays is a set of days, one bit for each time.Weekday.
type weekdays uint8

func (w weekdays) has(d time.Weekday) bool { return w&(1<<d) != 0 }

// span is a range of local time, counted from the midnight at which the day starts. It includes
// from and excludes to. If the range crosses midnight, to exceeds 24 h.
type span struct{ from, to time.Duration }

func (s span) contains(clock time.Duration) bool { return s.from <= clock && clock < s.to }

// Open reports whether the schedule is open at t.
func (s *Schedule) Open(t time.Time) bool {
	if s == nil {
		return true
	}
	wall := t.In(s.zone)
	today, clock := wall.Weekday(), sinceMidnight(wall)
	yesterday := (today + 6) % 7
	for _, r := range s.rules {
		for _, span := range r.ranges {
			if r.days.has(today) && span.contains(clock) ||
				r.days.has(yesterday) && span.contains(clock+day) {
				return true
			}
		}
	}
	return false
}

// Next returns the first instant, at or after t, at which the schedule is open. It returns false if
// the schedule never opens.
func (s *Schedule) Next(t time.Time) (time.Time, bool) {
	return s.find(t, true)
}

// Until returns the first instant, at or after t, at which the schedule is closed. It returns the
// zero time if the schedule never closes.
func (s *Schedule) Until(t time.Time) time.Time {
	end, _ := s.find(t, false)
	return end
}

// Location returns the zone of the schedule, or UTC if the schedule is nil.
func (s *Schedule) Location() *time.Location {
	if s == nil {
		return time.UTC
	}
	return s.zone
}

// find returns the first instant, at or after t, at which the schedule is open or, if open is
// false, closed. It returns false if no such instant is within the horizon.
func (s *Schedule) find(t time.Time, open bool) (time.Time, bool) {
	if s == nil {
		s = Always()
	}
	for at := t; at.Sub(t) < horizon; at = s.step(at) {
		if s.Open(at) == open {
			return at, true
		}
	}
	return time.Time{}, false
}

// step returns the next instant at which Open may change: local time reaches midnight or the start
// or end of a range, or the zone changes its offset. Until then local time advances like elapsed
// time.
func (s *Schedule) step(t time.Time) time.Time {
	wall := t.In(s.zone)
	clock := sinceMidnight(wall)
	mark := day
	for _, r := range s.rules {
		for _, span := range r.ranges {
			for _, m := range [...]time.Duration{span.from, span.to % day} {
				if m > clock && m < mark {
					mark = m
				}
			}
		}
	}
	next := wall.Add(mark - clock)
	if _, change := wall.ZoneBounds(); !change.IsZero() && change.Before(next) {
		next = change
	}
	return next.In(t.Location())
}

// sinceMidnight returns the local time of day as a duration.
func sinceMidnight(wall time.Time) time.Duration {
	h, m, sec := wall.Clock()
	return time.Duration(h)*time.Hour + time.Duration(m)*time.Minute +
		time.Duration(sec)*time.Second + time.Duration(wall.Nanosecond())
}
