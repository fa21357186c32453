package balance

import "time"

// Ship is what goes from one robot to its neighbour in the tree.
type Ship struct {
	From, To int
	Load     float64
}

// Shipping returns what is to pass along each edge of the robots' tree so that all end together
// (paper 000, 3.3). A robot is due the part of the total load that is its part of the total rate;
// nil rates are equal. What passes along an edge follows from the loads and dues behind it. The
// ships come in rounds. Those of one round can go at once; a robot that forwards more than it has
// does so in a later round than it receives.
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
	over := make([]float64, len(t)) // load minus due of all robots behind the edge to the parent
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

// inRounds puts each ship into the first round in which its sender has the load.
func inRounds(waiting []Ship, loads []float64) (rounds [][]Ship) {
	const dust = 1e-9 // for rounding errors
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
		if len(round) == 0 { // only if loads are negative
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

// Trigger says when to level. It is asked every minute, and fires when the highest load, relative
// to its robot's rate, is far above the mean. It can fire again when the loads have become
// similar, or after a while, because they may never become so. (The paper's trigger fires when a
// robot's load has grown by 10,000 in five minutes.) Make it with NewTrigger. It is for one
// goroutine.
type Trigger struct {
	Over  float64       // fires if the highest load is more than this multiple of the mean
	Under float64       // can fire again below this multiple
	Rest  time.Duration // or after this time

	fired time.Time
	shot  bool
}

// NewTrigger returns a trigger with the values that were found best.
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

// unevenness returns the longest time that a robot needs for its load, as a multiple of the time
// that all would need if they ended together.
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
