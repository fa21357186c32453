package balance

import (
	"cmp"
	"slices"
)

// Night is what is known of the robots' work at one moment.
type Night struct {
	Waiting [][]int   // by robot: its hosts that have not been begun
	Busy    []float64 // by robot: ms that what it has begun is thought to take yet
	Pace    []float64 // by robot: what its hosts have taken so far over what was thought; nil or 0 is 1
}

// Transfer hands one host over.
type Transfer struct{ Host, From, To int }

// A host is not taken by a robot at which it costs more than dear times as much: what
// bounces from robot to robot would make the whole night's work grow. And the taker
// has to be done well before the other would be, even where the host takes longer by
// doubt than was thought.
const (
	dear  = 3
	doubt = 0.5
)

// Take gives the hosts that a robot without work is to take over from the others:
// from the one that will be last, as long as it helps, those that are relatively
// nearest to the taker, and so much that both end together. Hosts that have been
// begun stay. That a robot is slower than was thought is taken from what it has done.
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
		if here > dear*cost(last, j) {
			break // and so are those that follow
		}
		if end[idle]+here*(1+doubt) >= end[last] {
			continue
		}
		end[idle] += here
		end[last] -= cost(last, j)
		taken = append(taken, Transfer{j, last, idle})
	}
	return taken
}

func (n Night) pace(i int) float64 {
	if n.Pace == nil || n.Pace[i] <= 0 {
		return 1
	}
	return n.Pace[i]
}
