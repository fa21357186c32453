package balance

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Explain says in sentences why a plan is as it is: which robot ends last, what the bound comes
// from, which robots' time is scarce and, if from is not nil, why hosts moved. robot and host
// return the names of robots and hosts by their numbers.
func Explain(c *Costs, r Result, from Plan, robot, host func(int) string) []string {
	if c.Hosts == 0 {
		return []string{"There are no hosts."}
	}
	loads := r.Plan.Loads(c)
	last := 0
	for i := range loads {
		if loads[i] > loads[last] {
			last = i
		}
	}
	why := []string{
		fmt.Sprintf("Robot %s ends last, after %.0f ms. Most of that is %s.", robot(last), loads[last], c.largest(r.Plan, last, host)),
		c.whyBound(r),
		c.whyPrices(r.Prices, robot),
	}
	if misplaced := c.misplaced(r.Plan); misplaced > 0 {
		why = append(why, fmt.Sprintf("%d of %d hosts are not at the robot where they cost least: those robots have no time left for them.", misplaced, c.Hosts))
	} else {
		why = append(why, "Every host is at the robot where it costs least.")
	}
	if from != nil {
		why = append(why, c.whyMoved(r, from, robot, host)...)
	}
	return slices.DeleteFunc(why, func(s string) bool { return s == "" })
}

// largest names the three largest hosts of a robot.
func (c *Costs) largest(p Plan, robot int, host func(int) string) string {
	var hosts []int
	for j, i := range p {
		if i == robot {
			hosts = append(hosts, j)
		}
	}
	slices.SortFunc(hosts, func(a, b int) int { return cmp.Compare(c.At(robot, b), c.At(robot, a)) })
	var names []string
	for _, j := range hosts[:min(3, len(hosts))] {
		names = append(names, fmt.Sprintf("host %s (%.0f ms)", host(j), c.At(robot, j)))
	}
	return strings.Join(names, ", ")
}

// whyBound says what the bound comes from.
func (c *Costs) whyBound(r Result) string {
	if c.longest >= r.Bound*(1-1e-9) {
		return fmt.Sprintf("No plan ends before %.0f ms: one host takes that long at the robot nearest to it. Splitting it by URL hash would help, more robots would not.", r.Bound)
	}
	return fmt.Sprintf("No plan ends before %.0f ms: even with hosts cut up freely, all robots together need that long. Another robot near the large hosts would help.", r.Bound)
}

// whyPrices names the robots whose time is dearest and cheapest. A robot's price says how much
// sooner the night would end for each ms that the robot saved.
func (c *Costs) whyPrices(prices []float64, robot func(int) string) string {
	if len(prices) < 2 {
		return ""
	}
	dear, cheap := 0, 0
	for i, p := range prices {
		if p > prices[dear] {
			dear = i
		}
		if p < prices[cheap] {
			cheap = i
		}
	}
	return fmt.Sprintf("Time is dearest at robot %s (%.1f times the mean: it is near to much), cheapest at robot %s (%.2f times).", robot(dear), prices[dear]*float64(len(prices)), robot(cheap), prices[cheap]*float64(len(prices)))
}

// misplaced counts the hosts that cost less at another robot.
func (c *Costs) misplaced(p Plan) (n int) {
	found := make([]int, workers())
	c.rows(func(w, j int, ms []float64) {
		at := p[j]
		for i, cost := range ms {
			if cost < ms[at] && (c.excluded == nil || !c.excluded(i, j)) {
				found[w]++
				break
			}
		}
	})
	for _, k := range found {
		n += k
	}
	return n
}

// whyMoved explains the moves that gain most at the prices.
func (c *Costs) whyMoved(r Result, from Plan, robot, host func(int) string) []string {
	type move struct {
		j    int
		gain float64
	}
	var moves []move
	for j := range min(len(from), len(r.Plan)) {
		to, old := r.Plan[j], from[j]
		if to == old {
			continue
		}
		gain := math.Inf(1)
		if old >= 0 && old < c.Robots {
			gain = c.At(old, j)*r.Prices[old] - c.At(to, j)*r.Prices[to]
		}
		moves = append(moves, move{j, gain})
	}
	if len(moves) == 0 {
		return []string{"No host moves: the plan to go on from is as good as a new one would be, near enough."}
	}
	slices.SortStableFunc(moves, func(a, b move) int { return cmp.Compare(b.gain, a.gain) })
	why := []string{fmt.Sprintf("%d hosts move, only as many as bring the plan near the bound: a host that moves is fetched whole.", len(moves))}
	for _, m := range moves[:min(5, len(moves))] {
		to, old := r.Plan[m.j], from[m.j]
		name := host(m.j)
		switch {
		case old < 0 || old >= c.Robots:
			why = append(why, fmt.Sprintf("Host %s goes to robot %s: no robot has it now.", name, robot(to)))
		case math.IsInf(m.gain, 1):
			why = append(why, fmt.Sprintf("Host %s goes to robot %s: robot %s cannot collect it.", name, robot(to), robot(old)))
		case c.At(to, m.j) < c.At(old, m.j):
			why = append(why, fmt.Sprintf("Host %s goes from robot %s (%.0f ms) to robot %s (%.0f ms), where it is nearer.", name, robot(old), c.At(old, m.j), robot(to), c.At(to, m.j)))
		default:
			why = append(why, fmt.Sprintf("Host %s goes from robot %s (%.0f ms) to robot %s (%.0f ms): it is farther there, but robot %s's time is scarcer.", name, robot(old), c.At(old, m.j), robot(to), c.At(to, m.j), robot(old)))
		}
	}
	return why
}
