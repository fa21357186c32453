package display

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

var units = [...]string{"", "KiB", "MiB", "GiB", "TiB"}

// most is the largest number of bytes that ParseBytes accepts. Four times as many still fit into an
// int64.
const most = math.MaxInt64 / 4

// ParseBytes parses a number of bytes that is not negative, such as 4096, 512KiB, 1.5MiB or "50
// GiB". A fraction of a byte is cut off.
func ParseBytes(text string) (int64, error) {
	number, unit := text, int64(1)
	for i, suffix := range units[1:] {
		if before, ok := strings.CutSuffix(text, suffix); ok {
			number, unit = strings.TrimSuffix(before, " "), 1<<(10*(i+1))
		}
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil && n >= 0 && n <= most/unit {
		return n * unit, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || !(f >= 0) || f*float64(unit) > most {
		return 0, fmt.Errorf("%q is not a number of bytes such as 4096, 512KiB or 1.5MiB", text)
	}
	return int64(f * float64(unit)), nil
}

// FormatBytes formats a number of bytes so that ParseBytes returns exactly this number.
func FormatBytes(n int64) string {
	i := 0
	for n > 0 && n%1024 == 0 && i+1 < len(units) {
		n, i = n/1024, i+1
	}
	return strconv.FormatInt(n, 10) + units[i]
}
