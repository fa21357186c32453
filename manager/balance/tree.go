package balance

import "math"

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
