package balance

import (
	"cmp"
	"slices"
)

// Night is the state of the robots' work at one moment.
type Night struct {
	Waiting [][]int   // by robot: its hosts that it has not begun
	Busy    []float64 // by robot: expected ms until the hosts that it has begun are done
	Pace    []float64 // by robot: time that its hosts took, as a multiple of the expected time; nil or 0: 1
}

// Transfer moves one host from a robot to another.
type Transfer struct{ Host, From, To int }

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

// Take returns the hosts that an idle robot is to take over from the robot that would end last. It
// prefers hosts that are relatively near to the idle robot, and takes hosts until both would end
// together. Hosts that were begun stay.
func Take(c *Costs, n Night, idle int) []Transfer {
	end := make([]float64, c.Robots)
	for i := range end {
		end[i] = n.Busy[i]
		for _, j := range n.Waiting[i] {
			end[i] += c.At(i, j) * n.pace(i)
		}
	}
	last := idle
	for i := range end {
		if len(n.Waiting[i]) > 0 && end[i] > end[last] {
			last = i
		}
	}
	if last == idle {
		return nil
	}
	cost := func(i, j int) float64 { return c.At(i, j) * n.pace(i) }
	hosts := slices.Clone(n.Waiting[last])
	slices.SortFunc(hosts, func(a, b int) int {
		return cmp.Or(cmp.Compare(c.At(idle, a)/c.At(last, a), c.At(idle, b)/c.At(last, b)), cmp.Compare(a, b))
	})
	var taken []Transfer
	for _, j := range hosts {
		here := cost(idle, j)
		if !Helps(cost(last, j), here, end[last], end[idle]) {
			continue
		}
		end[idle] += here
		end[last] -= cost(last, j)
		taken = append(taken, Transfer{j, last, idle})
	}
	return taken
}

// pace returns the robot's pace, or 1 if it is not known.
func (n Night) pace(i int) float64 {
	if n.Pace == nil || n.Pace[i] <= 0 {
		return 1
	}
	return n.Pace[i]
}
