package wire

import (
	"net/http"
	"strconv"
	"time"
)

// RetryAfter parses a Retry-After header, in seconds or as a date, and returns at most a week. It
// returns 0 if the header is missing, not valid or past.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	if n, err := strconv.Atoi(value); err == nil && n > 0 {
		return time.Duration(min(n, 7*24*3600)) * time.Second
	}
	if t, err := http.ParseTime(value); err == nil && t.After(now) {
		return min(t.Sub(now), 7*24*time.Hour)
	}
	return 0
}
