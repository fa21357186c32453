package display

import (
	"errors"
	"fmt"
	"time"
)

var errDayOrTime = errors.New("neither a day like 2026-11-21 nor a time like 2026-11-21T09:00:00Z")

// ParseDayOrTime parses a time in RFC 3339, or a day, which stands for its beginning in zone. The
// returned time is in zone.
func ParseDayOrTime(text string, zone *time.Location) (time.Time, error) {
	if day, err := time.ParseInLocation(time.DateOnly, text, zone); err == nil {
		return day, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, errDayOrTime
	}
	return at.In(zone), nil
}

// ParsePeriod is ParseDayOrTime for the parameters since and until of a query. A parameter that is
// empty changes nothing.
func ParsePeriod(since, until string, zone *time.Location, from, to *time.Time) (err error) {
	for _, at := range []struct {
		name, text string
		to         *time.Time
	}{{"since", since, from}, {"until", until, to}} {
		if at.text == "" {
			continue
		}
		if *at.to, err = ParseDayOrTime(at.text, zone); err != nil {
			return fmt.Errorf("%s %.200q is %w", at.name, at.text, err)
		}
	}
	return nil
}
