package balance

import (
	"cmp"
	"slices"
)

// Night is the state of the robots' work at one moment.
type Night struct {
	Waiting [][]int   // by robot: its hosts that it has not begun
	Busy    []float64 // by robot: ms that the hosts it has begun are expected to take yet
	Pace    []float64 // by robot: time that its hosts took, as a multiple of what was expected; nil or 0: 1
}

// Transfer moves one host from a robot to another.
type Transfer struct{ Host, From, To int }

// Helps reports whether the night gets shorter if a host goes from its robot to another. The host
// costs here and there, the robots would end at endHere and endThere without the move, all in ms.
// It must not cost several times as much: hosts that go from robot to robot would make the
// night's work grow. And the new robot must be done with it before the old one would end, even if
// the host takes it half as long again.
func Helps(here, there, endHere, endThere float64) bool {
	const dear, doubt = 3, 0.5
	return there <= dear*here && endThere+there*(1+doubt) < endHere
}

// Take returns the hosts that an idle robot is to take over from the robot that would end last.
// It prefers hosts that are relatively near to the idle robot, and takes as many as let both end
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
