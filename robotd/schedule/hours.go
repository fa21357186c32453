package schedule

import (
	"math"
	"slices"
	"time"
)

// Hours learns at which hours of the day a server is quick (paper 2000, 2.1): from
// the crawl's own transfers, not from 24 probes a day. Old days are forgotten little
// by little; what is known of an hour also speaks for its neighbours, because
// the load of a network does not jump with the clock. The zero value knows
// nothing. It is not safe for use by several goroutines at once.
type Hours struct {
	Speed  [24]float64 `json:"speed"`  // mean of what was observed, bytes per second
	Weight [24]float64 `json:"weight"` // how much that mean rests on, in observations
}

const (
	memory  = 0.95 // what a day leaves of the day before
	breadth = 1.5  // hours, by which an observation speaks for its neighbours at most
	hearsay = 3    // observations of another hour that count at most: an hour speaks for itself once it was seen
)

// weights returns how much each hour's observations say about the hour. The more is
// known, the less the neighbours are asked.
func (h *Hours) weights(hour int) (w [24]float64) {
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

// Observe takes in a transfer's speed at an hour, 0 to 23.
func (h *Hours) Observe(hour int, bytesPerSecond float64) {
	if !(bytesPerSecond > 0) || math.IsInf(bytesPerSecond, 0) {
		return
	}
	h.Weight[hour]++
	h.Speed[hour] += (bytesPerSecond - h.Speed[hour]) / h.Weight[hour]
}

// Forget ends a day.
func (h *Hours) Forget() {
	for i := range h.Weight {
		h.Weight[i] *= memory
	}
}

// Estimate is the speed to be expected at an hour; zero where nothing is known.
func (h *Hours) Estimate(hour int) float64 {
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

// Best is the quickest of the hours that may be used; the first of several alike. It
// is false where none may be.
func (h *Hours) Best(may func(hour int) bool) (int, bool) {
	hours, ok := h.Spread(1, may)
	if !ok {
		return 0, false
	}
	return hours[0], true
}

// Spread gives the hours of k visits a day: of the evenly spaced ones, floor(o+24i/k),
// those that are quickest together. Hours that may not be used count as standing still;
// it is false where no offset has only hours that may be used and even the best
// has none at all.
func (h *Hours) Spread(k int, may func(hour int) bool) ([]int, bool) {
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

// Unknown is the hour of which least is known among those that may be used: where a
// visit that could be at any time teaches most.
func (h *Hours) Unknown(may func(hour int) bool) (int, bool) {
	least, at := math.Inf(1), -1
	for hour := range 24 {
		if may != nil && !may(hour) {
			continue
		}
		known := 0.0
		for _, w := range h.weights(hour) {
			known += w
		}
		if known < least {
			least, at = known, hour
		}
	}
	return at, at >= 0
}

// Within tells which hours of a day the plan's window is open for, from start to end.
func (p Plan) Within(day time.Time) func(hour int) bool {
	midnight := p.midnight(day, 0)
	return func(hour int) bool {
		at := time.Date(midnight.Year(), midnight.Month(), midnight.Day(), hour, 0, 0, 0, midnight.Location())
		if at.Hour() != hour || !p.Window.Open(at) { // an hour that clocks leave out
			return false
		}
		until := p.Window.Until(at)
		return until.IsZero() || !until.Before(at.Add(time.Hour))
	}
}
