package webpage

import (
	"fmt"
	"strconv"
	"time"
)

// Number formats a number with commas between groups of three digits.
func (Page) Number(n any) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Bytes formats a number of bytes with a decimal unit: 999 B, 1.2 MB, 45 GB.
func (Page) Bytes(n int64) string { return amount(float64(n)) + "B" }

// Rate formats a rate in bytes a second, with a decimal unit.
func (Page) Rate(perSecond float64) string { return amount(perSecond) + "B/s" }

// amount formats a number with at most three digits, and the prefix of its unit.
func amount(n float64) string {
	unit := 0
	for ; n >= 999.5 && unit < len(prefixes)-1; unit++ {
		n /= 1000
	}
	if unit == 0 || n >= 9.95 {
		return strconv.FormatFloat(n, 'f', 0, 64) + " " + prefixes[unit]
	}
	return strconv.FormatFloat(n, 'f', 1, 64) + " " + prefixes[unit]
}

var prefixes = []string{"", "k", "M", "G", "T", "P", "E"}

// Clock formats a time to the minute, in the service's zone; "–" for the zero time.
func (p Page) Clock(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return p.Local(t).Format("2006-01-02 15:04 MST")
}

// Second formats a time to the second, in the service's zone.
func (p Page) Second(t time.Time) string { return p.Local(t).Format("2006-01-02 15:04:05 MST") }

// Date formats the day of a time, in the service's zone; "–" for the zero time.
func (p Page) Date(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return p.Local(t).Format("2006-01-02")
}

// Took formats a duration in at most two units, such as hours and minutes.
func (p Page) Took(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return p.T("%d days", int(d.Hours()/24))
	case d >= time.Hour:
		return p.T("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return p.T("%d min", int(d.Minutes()))
	}
	return p.T("%d s", int(d.Seconds()))
}

// Local returns a time in the service's zone, or in UTC if Zone is nil.
func (s *Site) Local(t time.Time) time.Time {
	if s.Zone == nil {
		return t.UTC()
	}
	return t.In(s.Zone)
}
