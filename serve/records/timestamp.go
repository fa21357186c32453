package records

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"sheaf/serve/replay"
)

// parseTime parses 4, 6, 8, 10, 12 or 14 digits, a date (2026-11-21) or RFC 3339. It returns the
// first and the last instant that the text can mean.
func parseTime(text string) (first, last time.Time, err error) {
	if strings.Trim(text, "0123456789") != "" {
		if t, err := time.Parse(time.DateOnly, text); err == nil {
			return t, t.AddDate(0, 0, 1).Add(-1), nil
		}
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return t, t, fmt.Errorf("want 4 to 14 digits such as 20261121, or RFC 3339")
		}
		if t.Nanosecond() == 0 {
			return t.UTC(), t.UTC().Add(time.Second - 1), nil
		}
		return t.UTC(), t.UTC(), nil
	}
	n := len(text)
	if n < 4 || n > len(replay.Layout) || n%2 != 0 {
		return first, last, fmt.Errorf("%d digits; want 4 (a year), 6, 8, 10, 12 or 14", n)
	}
	first, next, err := replay.ParseDigits(text, time.UTC)
	if err != nil {
		return first, last, fmt.Errorf("no such time")
	}
	return first, next.Add(-1), nil
}

// period is the time between two instants, both inclusive. A zero instant leaves that end open.
type period struct{ from, to time.Time }

// parsePeriod parses a time, such as a year, or the two ends of a period with a slash between them
// (as in ISO 8601). One end may be missing.
func parsePeriod(text string) (*period, error) {
	var p period
	begin, end, two := strings.Cut(text, "/")
	if two && begin == "" && end == "" {
		return nil, errors.New("want a time, or two with a slash between them")
	}
	var err error
	if begin != "" {
		if p.from, p.to, err = parseTime(begin); err != nil {
			return nil, err
		}
	}
	if two {
		p.to = time.Time{}
		if end != "" {
			_, p.to, err = parseTime(end)
		}
	}
	if err == nil && !p.to.IsZero() && p.to.Before(p.from) {
		err = errors.New("ends before it begins")
	}
	return &p, err
}

// has reports whether a time is in the period.
func (p *period) has(t time.Time) bool {
	return !t.Before(p.from) && (p.to.IsZero() || !t.After(p.to))
}
