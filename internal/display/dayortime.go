package display

import (
	"errors"
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
