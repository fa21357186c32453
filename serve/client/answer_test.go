package client

import (
	"testing"
	"time"
)

// FuzzHeaders: a range that is accepted is within the whole file and has the body's length; the
// time of a retry is not in the past.
func FuzzHeaders(f *testing.F) {
	for _, text := range []string{"bytes 0-9/10", "bytes 5-9/*", "bytes 9223372036854775807-9223372036854775807/*", "bytes -1-5/10", "bytes 0-9/9", "120", "Sun, 22 Nov 2026 14:00:00 GMT", "9223372036854775807"} {
		f.Add(text, int64(10))
		f.Add(text, int64(-1))
	}
	f.Fuzz(func(t *testing.T, text string, length int64) {
		from, size, err := part(text, length)
		if err == nil && (from < 0 || size < -1 || size >= 0 && length >= 0 && from+length > size) {
			t.Errorf("%q of %d bytes begins at %d of %d", text, length, from, size)
		}
		begun := time.Now()
		if at := retryAt(text); !at.IsZero() && at.Before(begun) {
			if _, err := time.Parse(time.RFC1123, text); err != nil && len(text) < 24 { // not a date, which may be in the past
				t.Errorf("%q asks to come at %v", text, at)
			}
		}
	})
}
