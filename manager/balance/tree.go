package balance

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Tree is a tree of robots: the list of neighbours of each.
type Tree [][]int

// Prim returns a minimum spanning tree of robots by Prim's algorithm (paper 001, 4.2.6), from
// robot 0 on. distance must be symmetric. Of equal distances, lower robot numbers come first.
func Prim(distance [][]float64) Tree {
	n := len(distance)
	t := make(Tree, n)
	nearest, from, in := make([]float64, n), make([]int, n), make([]bool, n)
	for i := range nearest {
		nearest[i], from[i] = math.Inf(1), -1
	}
	for range n {
		next := -1
		for i := range n {
			if !in[i] && (next < 0 || nearest[i] < nearest[next]) {
				next = i
			}
		}
		in[next] = true
		if f := from[next]; f >= 0 {
			t[f] = append(t[f], next)
			t[next] = append(t[next], f)
		}
		for i := range n {
			if d := distance[next][i]; !in[i] && (from[i] < 0 || d < nearest[i]) {
				nearest[i], from[i] = d, next
			}
		}
	}
	return t
}

// Hops returns the number of edges from robot i to each robot.
func (t Tree) Hops(i int) []int {
	hops := make([]int, len(t))
	t.walk(i, -1, func(at, parent int) {
		if parent >= 0 {
			hops[at] = hops[parent] + 1
		}
	})
	return hops
}

// toward returns, for each other robot, the neighbour of i on the way to it.
func (t Tree) toward(i int) []int {
	next := make([]int, len(t))
	for _, n := range t[i] {
		t.walk(n, i, func(at, _ int) { next[at] = n })
	}
	next[i] = i
	return next
}

// walk visits the robots from i on, parents first, except those behind parent.
func (t Tree) walk(i, parent int, visit func(at, parent int)) {
	visit(i, parent)
	for _, n := range t[i] {
		if n != parent {
			t.walk(n, i, visit)
		}
	}
}

// Steps returns half the longest path in the tree, in hops, rounded up. Paper 001 asks for probes
// that far away. (Its 4.2.7 says "the longest branch"; the numbers in 4.3.1, 5 and 3, show that
// half the longest path is meant.)
func (t Tree) Steps() int {
	longest := 0
	for i := range t {
		for _, h := range t.Hops(i) {
			longest = max(longest, h)
		}
	}
	return (longest + 1) / 2
}

// Distances returns how differently each two robots see the hosts: the mean of |ln t_ij - ln t_kj|.
// It stands in for the distance between two robots, which nobody has measured: robots on one
// network are near to the same hosts.
func Distances(c *Costs) [][]float64 {
	d := make([][]float64, c.Robots)
	for i := range d {
		d[i] = make([]float64, c.Robots)
	}
	step := max(1, c.Hosts/2000)
	for i := range d {
		for k := range i {
			sum, n := 0.0, 0
			for j := 0; j < c.Hosts; j += step {
				if a, b := c.At(i, j), c.At(k, j); a > 0 && b > 0 && !math.IsInf(a, 1) && !math.IsInf(b, 1) {
					sum += math.Abs(math.Log(a / b))
					n++
				}
			}
			if n > 0 {
				sum /= float64(n)
			} else {
				sum = math.Inf(1)
			}
			d[i][k], d[k][i] = sum, sum
		}
	}
	return d
}

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
