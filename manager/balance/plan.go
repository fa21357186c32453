package balance

import "slices"

// Plan is the robot of each host, by the host's number.
type Plan []int

// Loads returns the sum of each robot's costs, in ms.
func (p Plan) Loads(c *Costs) []float64 {
	loads := make([]float64, c.Robots)
	for j, i := range p {
		loads[i] += c.At(i, j)
	}
	return loads
}

// Makespan returns the highest of the robots' sums, in ms.
func (p Plan) Makespan(c *Costs) float64 { return slices.Max(p.Loads(c)) }

// Moved returns how many hosts are at another robot than in from.
func (p Plan) Moved(from Plan) int {
	n := 0
	for j := range p {
		if j < len(from) && p[j] != from[j] {
			n++
		}
	}
	return n
}

// Result is a plan and how good it is.
type Result struct {
	Plan     Plan
	Makespan float64   // ms
	Bound    float64   // ms; no plan is shorter
	Prices   []float64 // of each robot's time
}
