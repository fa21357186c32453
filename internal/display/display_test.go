package display_test

import (
	"testing"
	"time"

	"sheaf/internal/display"
)

// A day begins at midnight where its reader is; a time says itself where it is.
func TestDaysAndTimes(t *testing.T) {
	tokyo := time.FixedZone("JST", 9*60*60)
	for text, want := range map[string]string{
		"2026-11-21":                "2026-11-21T00:00:00+09:00",
		"2026-11-21T03:00:00Z":      "2026-11-21T12:00:00+09:00",
		"2026-11-21T03:00:00+01:00": "2026-11-21T11:00:00+09:00",
		"2026-11-31":                "",
		"20261121":                  "",
		"2026-11-21 03:00":          "",
		"":                          "",
	} {
		at, err := display.ParseDayOrTime(text, tokyo)
		if got := at.Format(time.RFC3339); want != "" && (err != nil || got != want) || want == "" && err == nil {
			t.Errorf("%q: %s, %v; want %q", text, got, err, want)
		}
	}
}
