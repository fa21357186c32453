// Package window tells when something may happen: when an account may download,
// when a batch may be published, when a robot may upload.
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
// A range whose end is before its start crosses midnight and belongs to the day
// on which it starts. The zone stands once, at the end, and holds for all rules.
//
// The idea: whether a schedule is open depends on nothing but what a clock on a
// wall in that zone shows. When clocks go forward, a range within the hour that
// is left out does not happen that day, and one that begins in it opens as the
// clocks jump; when they go back, a range within the repeated hour happens twice.
package window

import "time"

const day = 24 * time.Hour

// horizon bounds the search for the next change: a schedule repeats weekly, and
// one week's range may be lost to a change of clocks.
const horizon = 15 * day

// Schedule is a weekly set of times. It is immutable, so any number of
// goroutines may use it at once. A nil Schedule is always open.
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

// span is a range of the wall clock, from included, to not, counted from the
// midnight on which the day starts. To exceeds 24 h where the range crosses midnight.
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

// Next returns the first instant not before t at which the schedule is open:
// t itself where it is open then. It is false where the schedule never opens.
func (s *Schedule) Next(t time.Time) (time.Time, bool) {
	return s.find(t, true)
}

// Until returns the end of the opening that t lies in, the first instant at
// which the schedule is closed again. It is t itself where the schedule is
// closed then, and the zero time where the opening has no end.
func (s *Schedule) Until(t time.Time) time.Time {
	end, _ := s.find(t, false)
	return end
}

// Location is the zone that the schedule is computed in.
func (s *Schedule) Location() *time.Location {
	if s == nil {
		return time.UTC
	}
	return s.zone
}

// find returns the first instant not before t at which Open is as wanted.
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

// step returns the next instant at which Open may change: where the wall clock
// reaches a range's end or start or midnight, or the zone changes its offset,
// whichever comes first. Until then wall and elapsed time run alike.
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

// sinceMidnight is what the wall clock shows, as the time since it showed 00:00.
func sinceMidnight(wall time.Time) time.Duration {
	h, m, sec := wall.Clock()
	return time.Duration(h)*time.Hour + time.Duration(m)*time.Minute +
		time.Duration(sec)*time.Second + time.Duration(wall.Nanosecond())
}
