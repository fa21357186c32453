package bandwidth

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/window"
)

// Slowest is the lowest rate that can be set, in bytes a second. With less, clients take a transfer
// for dead.
const Slowest = 1024

// Rates are limits in bytes a second, by the time of day:
//
//	10MiB
//	1MiB Mon-Fri 09:00-18:00 Asia/Tokyo | 10MiB
//	unlimited 00:00-06:00 Asia/Tokyo | 512KiB
//
// The first rule whose times are open applies; if there is none, there is no limit. Times are in
// the grammar of internal/window. Rates are immutable. A nil *Rates means no limit.
type Rates struct{ rules []rule }

type rule struct {
	rate int64            // 0: no limit
	when *window.Schedule // nil: always
}

const unlimited = "unlimited"

// ParseRates parses rates in the grammar of the type.
func ParseRates(text string) (*Rates, error) {
	r := new(Rates)
	for part := range strings.SplitSeq(text, "|") {
		amount, times, timed := strings.Cut(strings.TrimSpace(part), " ")
		var one rule
		if !strings.EqualFold(amount, unlimited) {
			n, err := ParseSize(strings.TrimSuffix(amount, "/s"))
			if err != nil {
				return nil, fmt.Errorf("rate %q: %w", text, err)
			}
			if n < Slowest {
				return nil, fmt.Errorf("rate %q: %s is below the least, 1KiB a second; for none at all use the window never", text, amount)
			}
			one.rate = n
		}
		if timed {
			schedule, err := window.Parse(times)
			if err != nil {
				return nil, fmt.Errorf("rate %q: %w", text, err)
			}
			one.when = schedule
		}
		r.rules = append(r.rules, one)
	}
	return r, nil
}

// At returns the rate at t in bytes a second, or false if there is no limit.
func (r *Rates) At(t time.Time) (int64, bool) {
	if r == nil {
		return 0, false
	}
	for _, one := range r.rules {
		if one.when.Open(t) {
			return one.rate, one.rate > 0
		}
	}
	return 0, false
}

// String returns the rates in the grammar of the type.
func (r *Rates) String() string {
	if r == nil || len(r.rules) == 0 {
		return unlimited
	}
	parts := make([]string, len(r.rules))
	for i, one := range r.rules {
		parts[i] = unlimited
		if one.rate > 0 {
			parts[i] = FormatSize(one.rate)
		}
		if one.when != nil {
			parts[i] += " " + one.when.String()
		}
	}
	return strings.Join(parts, " | ")
}

// MarshalText implements encoding.TextMarshaler.
func (r *Rates) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It accepts what ParseRates does.
func (r *Rates) UnmarshalText(text []byte) error {
	parsed, err := ParseRates(string(text))
	if err != nil {
		return err
	}
	*r = *parsed
	return nil
}

var units = [...]string{"", "KiB", "MiB", "GiB", "TiB"}

// ParseSize parses a number of bytes, such as 4096, 512KiB, 1.5MiB or 50GiB.
func ParseSize(text string) (int64, error) {
	number, unit := text, 1.0
	for i, suffix := range units[1:] {
		if before, ok := strings.CutSuffix(text, suffix); ok {
			number, unit = before, math.Pow(1024, float64(i+1))
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n >= 0) || n*unit > math.MaxInt64/4 {
		return 0, fmt.Errorf("%q is not a number of bytes such as 4096, 512KiB or 1.5MiB", text)
	}
	return int64(n * unit), nil
}

// FormatSize formats a number of bytes so that ParseSize returns exactly it.
func FormatSize(n int64) string {
	i := 0
	for n > 0 && n%1024 == 0 && i+1 < len(units) {
		n, i = n/1024, i+1
	}
	return strconv.FormatInt(n, 10) + units[i]
}
