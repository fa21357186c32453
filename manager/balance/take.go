package balance

import (
	"cmp"
	"slices"
)

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
