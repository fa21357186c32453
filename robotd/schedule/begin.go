package schedule

import "time"

// OpenTime is for how long the window is open between two times, and when it last closes
// before the second: that time itself where it is open then.
func (p Plan) OpenTime(from, to time.Time) (open time.Duration, last time.Time) {
	last = from
	for at := from; at.Before(to); {
		begin, ok := p.Window.Next(at)
		if !ok || !begin.Before(to) {
			break
		}
		end := p.Window.Until(begin)
		if end.IsZero() || end.After(to) {
			end = to
		}
		open += end.Sub(begin)
		at, last = end, end
	}
	return open, last
}

// better is how much quicker other hours must look for a visit to wait for them.
const better = 1.05

// Begin returns when, between two times, a visit should begin that takes so long: when the
// server is quickest meanwhile, within one opening of the window. Where cycles are shorter than
// a day, its hours are those of so many evenly spaced visits that are quickest together. To
// explore is to go at the hour that was seen least. Where nothing is known, or there is no
// choice, it is from.
func (p Plan) Begin(h *Hours, from, to time.Time, long time.Duration, explore bool) time.Time {
	if h.Known() == 0 {
		return from
	}
	wanted := func(int) bool { return true }
	if p.Every > 0 && p.Every < 24*time.Hour && !explore {
		hours, ok := h.Spread(int(24*time.Hour/p.Every), p.Within(from))
		if ok {
			wanted = func(hour int) bool {
				for _, h := range hours {
					if h == hour {
						return true
					}
				}
				return false
			}
		}
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
		if !wanted(at.Hour()) {
			continue
		}
		if w := worth(at); w > most {
			best, most = at, w
		}
	}
	return best
}

// Known is how much the estimates rest on, in observations.
func (h *Hours) Known() (sum float64) {
	for _, w := range h.Weight {
		sum += w
	}
	return sum
}

// span is the mean speed to be expected over a time.
func (h *Hours) span(at time.Time, long time.Duration) float64 {
	n := max(1, min(24, int((long+time.Hour-1)/time.Hour)))
	sum := 0.0
	for i := range n {
		sum += h.Estimate((at.Hour() + i) % 24)
	}
	return sum / float64(n)
}
