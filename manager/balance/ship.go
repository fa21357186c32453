package balance

import "time"

// Ship is one edge's part in levelling: so much goes from one robot to its neighbour.
type Ship struct {
	From, To int
	Load     float64
}

// Shipping levels the robots' uncollected work along their tree (paper 000, 3.3): the
// loads are summed up to the root, each robot's due is told to all, and what passes over
// each edge follows, exactly and in one way only, from what lies behind it. A robot's due
// is its part of the whole by its measured rate, for equal counts are not equal time;
// rates may be nil for equal ones. The ships come in an order in which a robot that
// forwards more than it has passes it on after it has received it, as rounds that
// can go at once.
func Shipping(t Tree, loads, rates []float64) (rounds [][]Ship) {
	if len(t) == 0 {
		return nil
	}
	total, speed := 0.0, 0.0
	rate := func(i int) float64 {
		if rates == nil {
			return 1
		}
		return max(rates[i], 0)
	}
	for i, l := range loads {
		total += l
		speed += rate(i)
	}
	if speed == 0 {
		return nil
	}
	order, parent := make([]int, 0, len(t)), make([]int, len(t))
	t.walk(0, -1, func(at, p int) {
		order = append(order, at)
		parent[at] = p
	})
	over := make([]float64, len(t)) // what lies behind the edge to the parent, beyond its due
	for i, l := range loads {
		over[i] = l - total*rate(i)/speed
	}
	var waiting []Ship
	for n := len(order) - 1; n > 0; n-- {
		i := order[n]
		over[parent[i]] += over[i]
		switch {
		case over[i] > 0:
			waiting = append(waiting, Ship{i, parent[i], over[i]})
		case over[i] < 0:
			waiting = append(waiting, Ship{parent[i], i, -over[i]})
		}
	}
	return inRounds(waiting, loads)
}

// inRounds puts ships into rounds: each goes in the first in which its sender has it.
func inRounds(waiting []Ship, loads []float64) (rounds [][]Ship) {
	const dust = 1e-9 // of rounding
	have := append([]float64(nil), loads...)
	for len(waiting) > 0 {
		var round, rest []Ship
		left := append([]float64(nil), have...)
		for _, s := range waiting {
			if left[s.From] >= s.Load*(1-dust)-dust {
				left[s.From] -= s.Load
				round = append(round, s)
			} else {
				rest = append(rest, s)
			}
		}
		if len(round) == 0 { // only where loads are negative
			return append(rounds, rest)
		}
		for _, s := range round {
			have[s.From] -= s.Load
			have[s.To] += s.Load
		}
		rounds, waiting = append(rounds, round), rest
	}
	return rounds
}

// Trigger says when to level. The paper's asks every five minutes whether a robot's
// load has grown by 10,000, and never fires just under that. This one fires when the highest load for its
// rate is far above the mean, is asked each minute, and is armed again after a while or
// when the loads have come near to one another: by the ratio alone it might never be. The
// zero value is not useful; see NewTrigger. It is not safe for concurrent use.
type Trigger struct {
	Over  float64       // fires above this highest load over the mean
	Under float64       // is armed again below this
	Rest  time.Duration // or after this

	fired time.Time
	shot  bool
}

// NewTrigger gives a trigger with the figures that were found best: 1.25, 1.10, 5 min.
func NewTrigger() *Trigger { return &Trigger{Over: 1.25, Under: 1.10, Rest: 5 * time.Minute} }

// Fire reports whether to level now.
func (t *Trigger) Fire(now time.Time, loads, rates []float64) bool {
	ratio := unevenness(loads, rates)
	if t.shot && (ratio < t.Under || now.Sub(t.fired) >= t.Rest) {
		t.shot = false
	}
	if t.shot || ratio <= t.Over {
		return false
	}
	t.shot, t.fired = true, now
	return true
}

// unevenness is the highest time that a robot's load takes over that which the whole
// would take if it were level.
func unevenness(loads, rates []float64) float64 {
	total, speed, most := 0.0, 0.0, 0.0
	for i, l := range loads {
		r := 1.0
		if rates != nil {
			r = rates[i]
		}
		total += l
		speed += r
		if r > 0 {
			most = max(most, l/r)
		}
	}
	if total <= 0 || speed <= 0 {
		return 1
	}
	return most / (total / speed)
}
