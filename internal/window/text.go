package window

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

const (
	always = "always"
	never  = "never"
)

// Always returns the schedule "always", in UTC.
func Always() *Schedule {
	return &Schedule{zone: time.UTC, rules: []rule{{days: everyDay, ranges: []span{{0, day}}}}}
}

// Never returns the schedule "never", in UTC.
func Never() *Schedule { return &Schedule{zone: time.UTC} }

const everyDay weekdays = 1<<7 - 1

// week lists the days in the order in which people write them.
var week = [...]time.Weekday{
	time.Monday, time.Tuesday, time.Wednesday, time.Thursday, time.Friday, time.Saturday, time.Sunday,
}

func abbreviation(d time.Weekday) string { return d.String()[:3] }

var looseSeparator = regexp.MustCompile(`\s*([,;])\s*|\s+(-)\s+`)

// Parse parses a schedule in the grammar of the package comment. It ignores the case of names of
// days, and spaces around commas and hyphens.
func Parse(text string) (*Schedule, error) {
	tidy := strings.TrimSpace(looseSeparator.ReplaceAllString(text, "$1$2"))
	switch strings.ToLower(tidy) {
	case always:
		return Always(), nil
	case never:
		return Never(), nil
	case "":
		return nil, fmt.Errorf(`window: schedule is empty; write "always", "never" or times such as "Mon-Fri 02:00-08:00 Asia/Tokyo"`)
	}
	s := &Schedule{zone: time.UTC}
	clauses := strings.Split(tidy, ";")
	for i, clause := range clauses {
		fields := strings.Fields(clause)
		if n := len(fields); i == len(clauses)-1 && n > 1 && !startsWithDigit(fields[n-1]) {
			zone, err := loadZone(fields[n-1])
			if err != nil {
				return nil, fmt.Errorf("window: %q: %w", text, err)
			}
			s.zone = zone
			fields = fields[:n-1]
		}
		r, err := parseRule(fields)
		if err != nil {
			return nil, fmt.Errorf("window: %q: rule %d: %w", text, i+1, err)
		}
		s.rules = append(s.rules, r)
	}
	return s, nil
}

func startsWithDigit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

func loadZone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, fmt.Errorf("zone Local differs between machines; name one, such as Asia/Tokyo")
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("zone %q is not known; give an IANA name such as Asia/Tokyo, at the end", name)
	}
	return zone, nil
}

func parseRule(fields []string) (rule, error) {
	r := rule{days: everyDay}
	if len(fields) > 0 && !startsWithDigit(fields[0]) {
		days, err := parseDays(fields[0])
		if err != nil {
			return r, err
		}
		r.days, fields = days, fields[1:]
	}
	if len(fields) != 1 {
		return r, fmt.Errorf("want days and one list of times, such as Mon-Fri 00:00-12:00,13:00-24:00")
	}
	for text := range strings.SplitSeq(fields[0], ",") {
		span, err := parseSpan(text)
		if err != nil {
			return r, err
		}
		r.ranges = append(r.ranges, span)
	}
	return r, nil
}

func parseDays(text string) (weekdays, error) {
	var set weekdays
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := parseDay(first)
		if err != nil {
			return 0, err
		}
		to := from
		if isRange {
			if to, err = parseDay(last); err != nil {
				return 0, err
			}
		}
		for d := from; ; d = (d + 1) % 7 {
			set |= 1 << d
			if d == to {
				break
			}
		}
	}
	return set, nil
}

func parseDay(text string) (time.Weekday, error) {
	for _, d := range week {
		if strings.EqualFold(text, abbreviation(d)) {
			return d, nil
		}
	}
	return 0, fmt.Errorf("%q is not a day; days are Mon Tue Wed Thu Fri Sat Sun", text)
}

func parseSpan(text string) (span, error) {
	first, last, ok := strings.Cut(text, "-")
	if !ok {
		return span{}, fmt.Errorf("%q is not a range of times; write hh:mm-hh:mm", text)
	}
	from, err := parseClock(first)
	if err != nil {
		return span{}, err
	}
	to, err := parseClock(last)
	if err != nil {
		return span{}, err
	}
	switch {
	case from == day:
		return span{}, fmt.Errorf("%q: a range cannot start at 24:00; use 00:00 of the next day", text)
	case from == to:
		return span{}, fmt.Errorf("%q is empty; a whole day is 00:00-24:00", text)
	case to < from:
		to += day
	}
	return span{from, to}, nil
}

func parseClock(text string) (time.Duration, error) {
	if text == "24:00" {
		return day, nil
	}
	t, err := time.Parse("15:04", text)
	if err != nil || len(text) != len("15:04") {
		return 0, fmt.Errorf("%q is not a time of day; write hh:mm from 00:00 to 24:00", text)
	}
	return sinceMidnight(t), nil
}

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
