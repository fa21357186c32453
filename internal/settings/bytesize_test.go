package settings_test

import (
	"testing"

	"sheaf/internal/display"
)

// TestParse shows that sizes are read as people write them, and that others are refused.
func TestParse(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "4096": 4096, "64KiB": 64 << 10, "64 KiB": 64 << 10, "1.5MiB": 3 << 19, "2GiB": 2 << 30, "1TiB": 1 << 40,
		"9007199254740993": 9007199254740993, // which no float64 is
		"":                 -1, "-1": -1, "1MB": -1, "much": -1, "NaN": -1, "Inf": -1, "KiB": -1, "9223372036854775807": -1, "99999999TiB": -1,
	} {
		n, err := display.ParseBytes(text)
		if err != nil {
			n = -1
		}
		if n != want {
			t.Errorf("%q: %d, %v; want %d", text, n, err, want)
		}
		if err != nil {
			continue
		}
		if again, err := display.ParseBytes(display.FormatBytes(n)); again != n || err != nil {
			t.Errorf("%d is formatted as %s, which is %d, %v", n, display.FormatBytes(n), again, err)
		}
	}
}
