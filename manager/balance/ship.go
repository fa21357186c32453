package balance

import (
	"cmp"
	"slices"
	"time"
)

// Ship is the load that one robot passes to its neighbour in the tree.
type Ship struct {
	From, To int
	Load     float64
}

// Sums say how much load each robot of a tree should have, and how much it should pass to its
// parent.
type Sums struct {
	Order  []int     // the robots, parents first
	Parent []int     // of each robot; -1: the root
	Due    []float64 // by robot: the total load in proportion to the robot's rate
	Over   []float64 // load minus due, of the robot and all below it: the load that is to pass to its parent
}

// Sum adds up loads and dues along a tree (paper 000, 3.3). If rates is nil, all rates are equal.
// If all rates are zero, ok is false.
func Sum(t Tree, loads, rates []float64) (s Sums, ok bool) {
	if len(t) == 0 {
		return s, false
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
		return s, false
	}
	s = Sums{make([]int, 0, len(t)), make([]int, len(t)), make([]float64, len(t)), make([]float64, len(t))}
	t.walk(0, -1, func(at, parent int) {
		s.Order = append(s.Order, at)
		s.Parent[at] = parent
	})
	for i, l := range loads {
		s.Due[i] = total * rate(i) / speed
		s.Over[i] = l - s.Due[i]
	}
	for n := len(s.Order) - 1; n > 0; n-- {
		i := s.Order[n]
		s.Over[s.Parent[i]] += s.Over[i]
	}
	return s, true
}

// Shipping returns the loads to pass along the edges of the robots' tree so that all robots end
// together. In this order, no robot passes on more than it has.
func Shipping(t Tree, loads, rates []float64) (ships []Ship) {
	s, ok := Sum(t, loads, rates)
	if !ok {
		return nil
	}
	for _, i := range slices.Backward(s.Order) {
		if p := s.Parent[i]; p >= 0 && s.Over[i] > 0 {
			ships = append(ships, Ship{i, p, s.Over[i]})
		}
	}
	for _, i := range s.Order {
		if p := s.Parent[i]; p >= 0 && s.Over[i] < 0 {
			ships = append(ships, Ship{p, i, -s.Over[i]})
		}
	}
	return ships
}

// Trigger says when to level. Fire is called every minute, and fires when the highest load,
// relative to its robot's rate, is far above the mean. It can fire again when the loads have become
// similar, or after a while, because they may never become similar. (The paper's trigger fires when
// a robot's load has grown by 10,000 in five minutes.) Use it in one goroutine.
type Trigger struct {
	fired time.Time
	shot  bool
}

// Values that were found best for Trigger.
const (
	triggerOver  = 1.25            // fires if the highest load is more than this multiple of the mean
	triggerUnder = 1.10            // can fire again below this multiple
	triggerRest  = 5 * time.Minute // or after this time
)

// Fire reports whether to level now. Call it every minute.
func (t *Trigger) Fire(now time.Time, loads, rates []float64) bool {
	ratio := unevenness(loads, rates)
	if t.shot && (ratio < triggerUnder || now.Sub(t.fired) >= triggerRest) {
		t.shot = false
	}
	if t.shot || ratio <= triggerOver {
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

// Helps reports whether moving a host to another robot shortens the night. The parameters here and
// there are the host's costs at its own robot and at the other. Without the move the two robots
// would end at endHere and endThere. All are in ms. Helps is false if the host costs several times
// as much at the other robot, because the night's work would grow with every such move. It is also
// false unless the other robot would be done with the host before the first robot would end, even
// if the host takes half as long again as expected.
func Helps(here, there, endHere, endThere float64) bool {
	const dear, doubt = 3, 0.5
	return there <= dear*here && endThere+there*(1+doubt) < endHere
}

// Take returns the hosts, of those given, that one robot is to take over from another. It prefers
// hosts that are relatively near to the taker, and takes hosts until both would end together. pace
// is by robot: the time that its hosts take, as a multiple of the expected time. end is the time in
// ms after which each robot would be done; Take updates it. may, unless it is nil, is asked of each
// host that Take would otherwise return.
func Take(c *Costs, hosts []int, from, to int, pace, end []float64, may func(j int) bool) (taken []int) {
	nearest := slices.SortedStableFunc(slices.Values(hosts), func(a, b int) int {
		return cmp.Compare(c.At(to, a)*c.At(from, b), c.At(to, b)*c.At(from, a))
	})
	for _, j := range nearest {
		here, there := c.At(from, j)*pace[from], c.At(to, j)*pace[to]
		if !Helps(here, there, end[from], end[to]) || may != nil && !may(j) {
			continue
		}
		end[from] -= here
		end[to] += there
		taken = append(taken, j)
	}
	return taken
}
