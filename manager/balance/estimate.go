package balance

import (
	"cmp"
	"math"
	"slices"
)

// Measured is one measurement of a robot's distance to a host. A pair may have several.
type Measured struct {
	Robot, Host int
	MsPerKB     float64
}

// Distance returns a function that gives the distance of any pair in ms per KB. For a measured pair
// that is the geometric mean of its measurements. Other pairs are estimated as robot factor × host
// factor; the factors say how slow the robot's line and the host's line are. They are medians of
// logarithms, fitted in turns, so that a host that was ten times as slow on one night does not
// distort the others.
//
// own is how much single pairs differ from that estimate, as the standard deviation of logarithms.
// It is below 0 if too few hosts were measured by several robots to tell.
func Distance(robots, hosts int, seen []Measured) (distance Func, own float64) {
	byRobot, byHost := make([][]Measured, robots), make([][]Measured, hosts)
	for _, m := range seen {
		if !(m.MsPerKB > 0) || math.IsInf(m.MsPerKB, 1) {
			continue
		}
		byRobot[m.Robot] = append(byRobot[m.Robot], m)
		byHost[m.Host] = append(byHost[m.Host], m)
	}
	robot, host := make([]float64, robots), make([]float64, hosts)
	for range 8 {
		fitMedians(host, byHost, func(m Measured) float64 { return robot[m.Robot] })
		fitMedians(robot, byRobot, func(m Measured) float64 { return host[m.Host] })
	}
	var off []float64
	for _, list := range byHost {
		for _, m := range list {
			if len(list) > 1 {
				off = append(off, math.Abs(math.Log(m.MsPerKB)-robot[m.Robot]-host[m.Host]))
			}
		}
	}
	own = -1
	if len(off) >= enoughLinks*robots {
		slices.Sort(off)
		own = off[len(off)*2/3] // of normal deviations, two in three are below about one standard deviation
	}
	return func(i, j int) float64 {
		sum, n := 0.0, 0
		for _, m := range byHost[j] {
			if m.Robot == i {
				sum, n = sum+math.Log(m.MsPerKB), n+1
			}
		}
		if n > 0 {
			return math.Exp(sum / float64(n))
		}
		return math.Exp(robot[i] + host[j])
	}, own
}

// fitMedians fits one factor for each list of measurements, as a logarithm: the median of the
// list's logarithms minus rest. An empty list gets the median of the other lists.
func fitMedians(to []float64, by [][]Measured, rest func(Measured) float64) {
	var known, logs []float64
	for n, list := range by {
		logs = logs[:0]
		for _, m := range list {
			logs = append(logs, math.Log(m.MsPerKB)-rest(m))
		}
		if len(logs) > 0 {
			to[n] = Median(logs)
			known = append(known, to[n])
		}
	}
	if len(known) == 0 {
		return
	}
	usual := Median(known)
	for n, list := range by {
		if len(list) == 0 {
			to[n] = usual
		}
	}
}

// enoughLinks is the number of measurements for each robot, of hosts that other robots measured
// too, from which Distance can tell how well the estimate fits.
const enoughLinks = 6

// Median returns the median of x, which must not be empty. For an even number of values it is the
// mean of the middle two.
func Median(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	if n := len(x); n%2 == 0 {
		return (x[n/2-1] + x[n/2]) / 2
	}
	return x[len(x)/2]
}

// Pair is a robot and a host, by their numbers.
type Pair struct{ Robot, Host int }

// Probes returns pairs that are worth measuring, those with the largest possible gain first. A pair
// is worth it if it was not measured and if, with a cost lower by the factor, the host would move
// to that robot at the plan's prices. Probes returns at most most pairs that would each shorten the
// night by more than the part least of its length. If these are fewer than usual, it adds pairs up
// to usual, whatever they gain.
func Probes(c *Costs, r Result, known func(robot, host int) bool, factor, least float64, usual, most int) []Pair {
	most = max(usual, most)
	if most <= 0 {
		return nil
	}
	found := make([]gains, workers())
	c.rows(func(w, j int, ms []float64) {
		at := r.Plan[j]
		now := ms[at] * r.Prices[at]
		for i, price := range r.Prices {
			gain := now - ms[i]/factor*price
			if gain > found[w].floor && i != at && (c.excluded == nil || !c.excluded(i, j)) && !known(i, j) {
				found[w].add(worth{Pair{i, j}, gain}, most)
			}
		}
	})
	var all gains
	for _, g := range found {
		all.list = append(all.list, g.list...)
	}
	all.cut(most)
	var pairs []Pair
	for n, w := range all.list {
		if n < usual || w.gain > least*r.Makespan {
			pairs = append(pairs, w.Pair)
		}
	}
	return pairs
}

// worth is a pair and the most that measuring it may gain, in ms.
type worth struct {
	Pair
	gain float64
}

// gains keeps the pairs that gain most.
type gains struct {
	list  []worth
	floor float64 // only pairs that gain more than this are kept
}

func (g *gains) add(w worth, most int) {
	if g.list = append(g.list, w); len(g.list) >= 2*most+1000 {
		g.cut(most)
	}
}

// cut sorts the pairs, best first, and keeps at most most.
func (g *gains) cut(most int) {
	slices.SortFunc(g.list, func(a, b worth) int {
		return cmp.Or(cmp.Compare(b.gain, a.gain), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Robot, b.Robot))
	})
	if len(g.list) > most {
		g.list = g.list[:most]
		g.floor = g.list[most-1].gain
	}
}
