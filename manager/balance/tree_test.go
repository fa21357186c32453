package balance_test

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"sheaf/manager/balance"
)

// The robots and their tree in Figure 10 of paper 001.
const (
	a = iota
	b
	c
	d
	e
	f
)

var figure10 = balance.Tree{a: {c}, b: {c}, c: {a, b, d}, d: {c, e, f}, e: {d}, f: {d}}

func TestFigure10(t *testing.T) {
	cost := []float64{10, 10, 6, 4, 12, 8}
	after := append([]float64(nil), cost...)
	flows := balance.Flows(figure10, cost)
	for u, near := range figure10 {
		for n := range near {
			after[u] -= flows[u][n]
		}
	}
	if want := []float64{8, 8, 8, 10.5, 8, 7.5}; !reflect.DeepEqual(after, want) {
		t.Errorf("costs after levelling %v, the paper has %v", after, want)
	}
	for _, edge := range []struct {
		from, to int
		flow     float64
	}{{a, c, 2}, {b, c, 2}, {c, d, 2}, {e, d, 4}, {f, d, 0.5}} {
		for n, v := range figure10[edge.from] {
			if v == edge.to && flows[edge.from][n] != edge.flow {
				t.Errorf("%c passes %v to %c, the paper has %v", 'A'+edge.from, flows[edge.from][n], 'A'+edge.to, edge.flow)
			}
		}
	}
}

func TestPrimAndItsPaths(t *testing.T) {
	far := 9.0
	tree := balance.Prim([][]float64{
		{0, 1, far, 4}, {1, 0, 2, far}, {far, 2, 0, 3}, {4, far, 3, 0},
	})
	if want := (balance.Tree{{1}, {0, 2}, {1, 3}, {2}}); !reflect.DeepEqual(tree, want) {
		t.Errorf("tree %v, want %v", tree, want)
	}
	if got := tree.Hops(0); !reflect.DeepEqual(got, []int{0, 1, 2, 3}) {
		t.Errorf("hops %v", got)
	}
	if tree.Steps() != 2 {
		t.Errorf("%d steps over a path of 3, want half of it rounded up", tree.Steps())
	}
}

func TestPaperLevelsButIsNoOptimum(t *testing.T) {
	var before, after, best float64
	for seed := range 10 {
		costs := costsOf(t, world(rand.New(rand.NewPCG(uint64(seed), 21)), 7, 103))
		tree := balance.Prim(balance.Distances(costs))
		dealt, err := balance.Paper(costs, tree, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		levelled, err := balance.Paper(costs, tree, dealt.Plan, 20)
		if err != nil {
			t.Fatal(err)
		}
		before += dealt.Makespan / dealt.Bound
		after += levelled.Makespan / levelled.Bound
		best += 1
		if levelled.Makespan > dealt.Makespan {
			t.Errorf("instance %d: levelling made it longer", seed)
		}
	}
	t.Logf("mean of the bound: dealt at random %.2f, levelled %.2f", before/best, after/best)
	if after > 0.6*before {
		t.Errorf("levelling brings %.2f of the bound to %.2f only", before/best, after/best)
	}
}
