package revisit

import (
	"math"
	"slices"
	"time"

	"sheaf/robotd/config"
)

// ServerHours estimates how fast a server is in each hour of the day (paper 2000, 2.1). It uses the
// crawl's own transfers instead of 24 probes a day. Older days count less. Each hour also counts
// for its neighbours, because network load changes gradually. The zero value knows nothing. A
// ServerHours must not be used concurrently.
type ServerHours struct {
	Speed  [24]float64 `json:"speed"`  // mean observed speed, in bytes per second
	Weight [24]float64 `json:"weight"` // number of observations, with older ones weighted less
}

const (
	memory  = 0.95 // weight of a day relative to the next
	breadth = 1.5  // hours; maximum spread of an observation to its neighbours
	hearsay = 3    // limit for the observations of a neighbour, so that an hour's own soon prevail
)

// weights returns how much each hour's observations count for the given hour. Neighbours count less
// the more is known.
func (h *ServerHours) weights(hour int) (w [24]float64) {
	known := 0.0
	for _, n := range h.Weight {
		known += n / 24
	}
	wide := min(breadth, 2.4/math.Cbrt(1+known))
	for i := range w {
		far := float64((i - hour + 24) % 24)
		far = min(far, 24-far)
		n := h.Weight[i]
		if i != hour {
			n = min(n, hearsay)
		}
		w[i] = n * math.Exp(-far*far/(2*wide*wide))
	}
	return w
}

// Observe adds a transfer's speed in an hour from 0 to 23.
func (h *ServerHours) Observe(hour int, bytesPerSecond float64) {
	if !(bytesPerSecond > 0) || math.IsInf(bytesPerSecond, 0) {
		return
	}
	h.Weight[hour]++
	h.Speed[hour] += (bytesPerSecond - h.Speed[hour]) / h.Weight[hour]
}

// Forget reduces the weight of past observations. Call it once a day.
func (h *ServerHours) Forget() {
	for i := range h.Weight {
		h.Weight[i] *= memory
	}
}

// Estimate returns the expected speed in an hour, or zero if nothing is known.
func (h *ServerHours) Estimate(hour int) float64 {
	var sum, weight float64
	for i, w := range h.weights(hour) {
		sum += w * h.Speed[i]
		weight += w
	}
	if weight == 0 {
		return 0
	}
	return sum / weight
}

// Spread returns the hours for k visits a day. Of the evenly spaced sets floor(o+24i/k) it takes
// the one with the most hours that may allows, and among equals the one that is fastest in total.
// It leaves out the set's other hours. It returns false if may allows no hour.
func (h *ServerHours) Spread(k int, may func(hour int) bool) ([]int, bool) {
	k = max(1, min(k, 24))
	var best []int
	most := -1.0
	usable := 0
	for offset := range 24 {
		hours := make([]int, 0, k)
		total, allowed := 0.0, 0
		for i := range k {
			hour := (offset + 24*i/k) % 24
			if may != nil && !may(hour) {
				continue
			}
			allowed++
			hours = append(hours, hour)
			total += h.Estimate(hour)
		}
		if allowed > usable || allowed == usable && allowed > 0 && total > most {
			best, most, usable = hours, total, allowed
		}
	}
	slices.Sort(best)
	return best, usable > 0
}

// Within returns a function that reports whether the plan's window is open during a whole hour of a
// day.
func Within(p config.Plan, day time.Time) func(hour int) bool {
	midnight := p.Midnight(day, 0)
	return func(hour int) bool {
		at := time.Date(midnight.Year(), midnight.Month(), midnight.Day(), hour, 0, 0, 0, midnight.Location())
		if at.Hour() != hour || !p.Window.Open(at) { // also false for an hour that a change of clocks skips
			return false
		}
		until := p.Window.Until(at)
		return until.IsZero() || !until.Before(at.Add(time.Hour))
	}
}

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
