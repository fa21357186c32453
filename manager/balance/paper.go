package balance

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Paper makes a plan as paper 001 does. If from is nil, it gives hosts to robots at random, equally
// many to each. Then it levels between neighbours in the robots' tree for a number of rounds
// (Figure 18 shows 20). It returns the plan of the best round, because levelling may oscillate. It
// fails if from is not a plan for these costs.
func Paper(c *Costs, t Tree, from Plan, rounds int) (Result, error) {
	plan := slices.Clone(from)
	if from == nil {
		plan = random(c)
	}
	for j, i := range plan {
		if i < 0 || i >= c.Robots || math.IsInf(c.At(i, j), 1) {
			return Result{}, fmt.Errorf("host %d is at robot %d, which cannot collect it: the paper's method has no way to move it", j, i)
		}
	}
	if len(plan) != c.Hosts || len(t) != c.Robots {
		return Result{}, fmt.Errorf("a plan of %d hosts and a tree of %d robots for costs of %d and %d", len(plan), len(t), c.Hosts, c.Robots)
	}
	r := Result{Plan: plan, Makespan: plan.Makespan(c)}
	if c.Hosts == 0 {
		return r, nil
	}
	price := newDual(c).climb(120)
	r.Prices, r.Bound = price, lowerBound(c, price)
	for range rounds {
		next := Level(c, t, plan)
		if next.Moved(plan) == 0 {
			break
		}
		plan = next
		if ms := plan.Makespan(c); ms < r.Makespan {
			r.Plan, r.Makespan = plan, ms
		}
	}
	return r, nil
}

// random gives hosts to robots in turn, in a random order that is the same each time.
func random(c *Costs) Plan {
	p := make(Plan, c.Hosts)
	for n, j := range rand.New(rand.NewPCG(1, 1)).Perm(c.Hosts) {
		i := n % c.Robots
		for math.IsInf(c.At(i, j), 1) {
			i = (i + 1) % c.Robots
		}
		p[j] = i
	}
	return p
}

// Flows returns how much each robot is to pass to each of its neighbours (paper 001, 4.2.7).
// flow[u][n] is for the n-th neighbour of u; it is positive if u gives. Each robot takes the mean
// of itself and its neighbours, and wishes to give each neighbour what it lacks. If two
// neighbours agree on the direction, the smaller wish counts. If both wish to give, or both to
// receive, the difference counts.
func Flows(t Tree, cost []float64) [][]float64 {
	wish := make([][]float64, len(t))
	for u, near := range t {
		mean := cost[u]
		for _, v := range near {
			mean += cost[v]
		}
		mean /= float64(len(near) + 1)
		wish[u] = make([]float64, len(near))
		for n, v := range near {
			wish[u][n] = mean - cost[v]
		}
	}
	flow := make([][]float64, len(t))
	for u, near := range t {
		flow[u] = make([]float64, len(near))
		for n, v := range near {
			mine, theirs := wish[u][n], wish[v][slices.Index(t[v], u)]
			switch {
			case mine > 0 && theirs < 0:
				flow[u][n] = min(mine, -theirs)
			case mine < 0 && theirs > 0:
				flow[u][n] = max(mine, -theirs)
			default:
				flow[u][n] = mine - theirs
			}
		}
	}
	return flow
}

// Level does one round of levelling: each robot passes hosts to its neighbours, at most as much as
// the flows say. A host goes towards the robot where it costs least within the tree's Steps, and
// stays if it is there. The paper leaves three things open. Here the largest hosts go first, a host
// counts by its cost at the neighbour that takes it, and it may exceed the flow if it costs less
// there.
func Level(c *Costs, t Tree, p Plan) Plan {
	next := slices.Clone(p)
	flows, steps := Flows(t, p.Loads(c)), t.Steps()
	held := make([][]int, c.Robots)
	for j, i := range p {
		held[i] = append(held[i], j)
	}
	for u, hosts := range held {
		slices.SortFunc(hosts, func(a, b int) int {
			return cmp.Or(cmp.Compare(c.At(u, b), c.At(u, a)), cmp.Compare(a, b))
		})
		hops, toward := t.Hops(u), t.toward(u)
		for _, j := range hosts {
			best := u
			for i := range hops {
				if hops[i] <= steps && c.At(i, j) < c.At(best, j) {
					best = i
				}
			}
			if best == u {
				continue
			}
			v := toward[best]
			n := slices.Index(t[u], v)
			there := c.At(v, j)
			if left := flows[u][n]; left > 0 && (there <= left || there < c.At(u, j)) {
				next[j] = v
				flows[u][n] -= there
			}
		}
	}
	return next
}
