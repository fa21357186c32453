package balance

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Paper plans as paper 001 has it: hosts are given to robots at random, equal
// in number, and then so many rounds of levelling between the neighbours in the
// robots' spanning tree follow (its Figure 18 shows 20). The best round's plan is
// given: levelling by costs that are known only after a move may swing. It fails where
// the plan to go on from is not one for these costs.
func Paper(c *Costs, t Tree, from Plan, rounds int) (Result, error) {
	plan := slices.Clone(from)
	if from == nil {
		plan = random(c)
	}
	for j, i := range plan {
		if i < 0 || i >= c.Robots || math.IsInf(c.all(i, j), 1) {
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
	price := newDual(c, math.Inf(1)).climb(120)
	r.Prices, r.Bound = price, max(overAll(c, price, math.Inf(1)), longest(c))
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

// random deals the hosts out to robots in random order, the same each time.
func random(c *Costs) Plan {
	p := make(Plan, c.Hosts)
	for n, j := range rand.New(rand.NewPCG(1, 1)).Perm(c.Hosts) {
		i := n % c.Robots
		for math.IsInf(c.all(i, j), 1) {
			i = (i + 1) % c.Robots
		}
		p[j] = i
	}
	return p
}

// Flows gives what each robot is to pass to each of its neighbours, by paper
// 001, 4.2.7: flow[u][n] for the n-th neighbour of u, above zero where u gives. Each
// robot averages itself and its neighbours and would give each what it lacks; of two
// who agree on the direction, the more modest decides; of two who both would
// give, or both receive, the difference goes.
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

// Level does one round of levelling: every robot passes hosts to its neighbours,
// at most what the flows say. Where the paper is silent: hosts go largest first; a host counts by its
// cost at the neighbour that takes it; more than the flow may pass where the host is nearer
// there. A host goes towards the robot that is nearest to it within the tree's
// Steps, and stays where that is its own.
func Level(c *Costs, t Tree, p Plan) Plan {
	next := slices.Clone(p)
	flows, steps := Flows(t, p.Loads(c)), t.Steps()
	held := make([][]int, c.Robots)
	for j, i := range p {
		held[i] = append(held[i], j)
	}
	for u, hosts := range held {
		slices.SortFunc(hosts, func(a, b int) int {
			return cmp.Or(cmp.Compare(c.all(u, b), c.all(u, a)), cmp.Compare(a, b))
		})
		hops, toward := t.Hops(u), t.toward(u)
		for _, j := range hosts {
			best := u
			for i := range hops {
				if hops[i] <= steps && c.all(i, j) < c.all(best, j) {
					best = i
				}
			}
			if best == u {
				continue
			}
			v := toward[best]
			n := slices.Index(t[u], v)
			there := c.all(v, j)
			if left := flows[u][n]; left > 0 && (there <= left || there < c.all(u, j)) {
				next[j] = v
				flows[u][n] -= there
			}
		}
	}
	return next
}
