package window

import (
	"fmt"
	"strings"
	"time"
)

// String returns the schedule in the grammar of the package comment. Parse of the result returns an
// equal schedule.
func (s *Schedule) String() string {
	if s == nil {
		return always
	}
	if len(s.rules) == 0 {
		return never
	}
	clauses := make([]string, len(s.rules))
	for i, r := range s.rules {
		clauses[i] = r.String()
	}
	text := strings.Join(clauses, "; ")
	switch {
	case s.zone != time.UTC:
		return text + " " + s.zone.String()
	case text == "00:00-24:00":
		return always
	}
	return text
}

// MarshalText implements encoding.TextMarshaler.
func (s *Schedule) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It accepts what Parse does.
func (s *Schedule) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*s = *parsed
	return nil
}

func (r rule) String() string {
	ranges := make([]string, len(r.ranges))
	for i, s := range r.ranges {
		to := s.to
		if to > day {
			to -= day
		}
		ranges[i] = clockString(s.from) + "-" + clockString(to)
	}
	times := strings.Join(ranges, ",")
	if r.days == everyDay {
		return times
	}
	return r.days.String() + " " + times
}

// String lists the days from Monday on. It writes three or more in a row as a range.
func (w weekdays) String() string {
	var parts []string
	for i := 0; i < len(week); i++ {
		if !w.has(week[i]) {
			continue
		}
		end := i
		for end+1 < len(week) && w.has(week[end+1]) {
			end++
		}
		name := abbreviation(week[i])
		if end-i >= 2 {
			name += "-" + abbreviation(week[end])
			i = end
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, ",")
}

func clockString(d time.Duration) string {
	return fmt.Sprintf("%02d:%02d", int(d.Hours()), int(d.Minutes())%60)
}
