package account

import (
	"fmt"
	"strings"
	"time"

	"sheaf/internal/display"
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
// The first rule whose times are open applies; if no rule's times are open, there is no limit.
// Times are in the grammar of internal/window. Rates are immutable. A nil *Rates means no limit.
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
			n, err := display.ParseBytes(strings.TrimSuffix(amount, "/s"))
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
			parts[i] = display.FormatBytes(one.rate)
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
