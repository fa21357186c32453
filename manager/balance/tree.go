package balance

import "math"

// Tree is a tree of robots: the neighbours of each.
type Tree [][]int

// Prim builds a minimum spanning tree of robots from their distances to one
// another (paper 001, 4.2.6), starting at robot 0. distance[i][k] is symmetric; of
// equal ones the lower numbers come first.
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

// Hops gives the number of edges from robot i to every other.
func (t Tree) Hops(i int) []int {
	hops := make([]int, len(t))
	t.walk(i, -1, func(at, parent int) {
		if parent >= 0 {
			hops[at] = hops[parent] + 1
		}
	})
	return hops
}

// toward gives, for every other robot, the neighbour of i on the way to it.
func (t Tree) toward(i int) []int {
	next := make([]int, len(t))
	for _, n := range t[i] {
		t.walk(n, i, func(at, _ int) { next[at] = n })
	}
	next[i] = i
	return next
}

// walk visits the robots from i on, parents first, not going back over parent.
func (t Tree) walk(i, parent int, visit func(at, parent int)) {
	visit(i, parent)
	for _, n := range t[i] {
		if n != parent {
			t.walk(n, i, visit)
		}
	}
}

// Steps is how far away paper 001 asks for probes: half the longest path, in
// hops, rounded up (4.2.7 says "the longest branch"; 4.3.1's numbers, 5 and 3, say which).
func (t Tree) Steps() int {
	longest := 0
	for i := range t {
		for _, h := range t.Hops(i) {
			longest = max(longest, h)
		}
	}
	return (longest + 1) / 2
}

// Distances gives how unlike two robots' ways to the hosts are: the mean of
// |ln t_ij - ln t_kj|. It stands in for the robots' distances from one another where nobody
// has measured these: robots on one line see the same hosts as near.
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
				if a, b := c.all(i, j), c.all(k, j); a > 0 && b > 0 && !math.IsInf(a, 1) && !math.IsInf(b, 1) {
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
