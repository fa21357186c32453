package revisit

import (
	"slices"
	"time"

	"sheaf/robotd/config"
)

// better is how much faster another hour must be for a visit to wait for it.
const better = 1.05

// Begin returns the best time, within the given bounds, for the begin of a visit of duration long:
// in the hour in which the server is fastest, within one opening of the window. If cycles are
// shorter than a day, it considers only the evenly spaced hours that are fastest together. With
// explore it returns the hour with the fewest observations instead. If nothing is known, or there
// is no choice, it returns from.
func Begin(p config.Plan, h *ServerHours, from, to time.Time, long time.Duration, explore bool) time.Time {
	if h.Known() == 0 {
		return from
	}
	var hours []int // nil: any
	if p.Every > 0 && p.Every < 24*time.Hour && !explore {
		hours, _ = h.Spread(int(24*time.Hour/p.Every), Within(p, from))
	}
	worth := func(at time.Time) float64 { return h.span(at.In(p.Window.Location()), long) }
	if explore {
		worth = func(at time.Time) float64 { return -h.Weight[at.In(p.Window.Location()).Hour()] }
	}
	best, most := from, worth(from)
	if !explore {
		most *= better
	}
	zone := p.Window.Location()
	local := from.In(zone)
	for i := 1; i <= 24; i++ {
		at := time.Date(local.Year(), local.Month(), local.Day(), local.Hour()+i, 0, 0, 0, zone)
		if !at.After(from) || !p.Window.Open(at) || at.Add(long).After(to) {
			continue
		}
		if until := p.Window.Until(at); !until.IsZero() && at.Add(long).After(until) {
			continue
		}
		if hours != nil && !slices.Contains(hours, at.Hour()) {
			continue
		}
		if w := worth(at); w > most {
			best, most = at, w
		}
	}
	return best
}

// Known returns the number of observations, with older ones weighted less.
func (h *ServerHours) Known() (sum float64) {
	for _, w := range h.Weight {
		sum += w
	}
	return sum
}

// span returns the expected mean speed over a duration.
func (h *ServerHours) span(at time.Time, long time.Duration) float64 {
	n := max(1, min(24, int((long+time.Hour-1)/time.Hour)))
	sum := 0.0
	for i := range n {
		sum += h.Estimate((at.Hour() + i) % 24)
	}
	return sum / float64(n)
}
