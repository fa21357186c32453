package balance_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/manager/balance"
)

// world returns costs like those in paper 001: the sizes of hosts and their distances spread over
// orders of magnitude, and the robots' lines differ.
func world(r *rand.Rand, robots, hosts int) [][]float64 {
	line := make([]float64, robots)
	for i := range line {
		line[i] = math.Exp(r.NormFloat64() * 0.5)
	}
	t := make([][]float64, robots)
	for i := range t {
		t[i] = make([]float64, hosts)
	}
	for j := range hosts {
		kb := math.Exp(6 + 1.5*r.NormFloat64())
		for i := range t {
			t[i][j] = kb * line[i] * math.Exp(1+r.NormFloat64())
		}
	}
	return t
}

// bounded returns how many instances to try: few, or as many as the variable says.
func bounded(t testing.TB, variable string, few int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s: %q is no number above 0", variable, text)
	}
	return n
}

func costsOf(t testing.TB, rows [][]float64) *balance.Costs {
	t.Helper()
	c, err := balance.Matrix(rows)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOptimalNearTheBound(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	instances := bounded(t, "SHEAF_BALANCE_INSTANCES", testkit.Size(1, 2))
	var ratios []float64
	for seed := range instances {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		c := costsOf(t, world(r, 7, 103))
		got := balance.Optimal(c)
		if m := got.Plan.Makespan(c); math.Abs(m-got.Makespan) > 1e-6*m {
			t.Fatalf("instance %d: makespan %v, said %v", seed, m, got.Makespan)
		}
		ratios = append(ratios, got.Makespan/got.Bound)
	}
	slices.Sort(ratios)
	median, worst := ratios[len(ratios)/2], ratios[len(ratios)-1]
	t.Logf("makespan over bound: median %.4f, p90 %.4f, worst %.4f", median, ratios[len(ratios)*9/10], worst)
	if ratios[0] < 1-1e-9 {
		t.Errorf("a plan ends before its bound: %v", ratios[0])
	}
	if median > 1.03 || worst > 1.08 {
		t.Errorf("median %.4f and worst %.4f of the bound; want at most 1.03 and 1.08", median, worst)
	}
}

// exhaustive returns the shortest makespan, by trying all plans.
func exhaustive(c *balance.Costs) float64 {
	best := math.Inf(1)
	plan := make(balance.Plan, c.Hosts)
	var try func(j int)
	try = func(j int) {
		if j == c.Hosts {
			best = min(best, plan.Makespan(c))
			return
		}
		for i := range c.Robots {
			plan[j] = i
			try(j + 1)
		}
	}
	try(0)
	return best
}

func TestOptimalIsOptimalWhereAllCanBeTried(t *testing.T) {
	for seed := range 40 {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		c := costsOf(t, world(r, 3, 7))
		got, want := balance.Optimal(c), exhaustive(c)
		if got.Makespan > want*(1+1e-9) || got.Bound > want*(1+1e-9) {
			t.Errorf("instance %d: makespan %.1f, bound %.1f; the shortest plan takes %.1f", seed, got.Makespan, got.Bound, want)
		}
	}
}

// The bound is not above the makespan of the best plan, and near it.
func TestBoundIsProvenByTryingPlaces(t *testing.T) {
	for seed := range 6 {
		r := rand.New(rand.NewPCG(uint64(seed), 11))
		c := costsOf(t, world(r, 4, 9))
		got, want := balance.Optimal(c), exhaustive(c)
		if got.Bound > want*(1+1e-9) || got.Bound < 0.99*want {
			t.Errorf("instance %d: bound %.1f, the shortest plan takes %.1f", seed, got.Bound, want)
		}
	}
}

func TestHostsThatSomeRobotsCannotCollect(t *testing.T) {
	inf := math.Inf(1)
	c := costsOf(t, [][]float64{{5, inf, 1, 4}, {inf, 5, 1, inf}})
	got := balance.Optimal(c)
	if got.Plan[0] != 0 || got.Plan[1] != 1 || got.Plan[3] != 0 {
		t.Errorf("plan %v gives a host to a robot that cannot collect it", got.Plan)
	}
	if got := balance.Optimal(costsOf(t, [][]float64{{0, 0, 3}, {0, 2, 0}})); got.Makespan != 0 {
		t.Errorf("plan %v takes %v ms, though it could take none", got.Plan, got.Makespan)
	}
	for _, bad := range [][][]float64{{{inf}, {inf}}, {{math.NaN()}}, {{-1}}, {{1, 2}, {1}}, {}} {
		if _, err := balance.Matrix(bad); err == nil {
			t.Errorf("costs %v were taken", bad)
		}
	}
}

func TestMidSizedAgainstTheBound(t *testing.T) {
	testkit.Slow(t)
	for _, size := range []struct{ robots, hosts int }{{1, 20}, {2, 2}, {12, 1}, {32, 3000}, {20, 400}} {
		r := rand.New(rand.NewPCG(5, uint64(size.hosts)))
		got := balance.Optimal(costsOf(t, world(r, size.robots, size.hosts)))
		t.Logf("%d robots, %d hosts: %.4f of the bound", size.robots, size.hosts, got.Makespan/got.Bound)
		if got.Makespan > 1.03*got.Bound {
			t.Errorf("%d robots, %d hosts: makespan %.4f of the bound", size.robots, size.hosts, got.Makespan/got.Bound)
		}
	}
}

// hashed computes costs instead of storing them: those of 100 robots and 10⁶ hosts would take 800
// MB.
func hashed(robots, hosts int) balance.Func {
	size, line := make([]float64, hosts), make([]float64, robots)
	r := rand.New(rand.NewPCG(9, 9))
	for j := range size {
		size[j] = math.Exp(6 + 1.5*r.NormFloat64())
	}
	for i := range line {
		line[i] = math.Exp(0.5 * r.NormFloat64())
	}
	way := make([]float64, 1<<16)
	for n := range way {
		way[n] = math.Exp(1 + r.NormFloat64())
	}
	return func(i, j int) float64 {
		h := uint64(j)*0x9e3779b97f4a7c15 ^ uint64(i)*0xbf58476d1ce4e5b9
		h ^= h >> 29
		h *= 0x94d049bb133111eb
		return size[j] * line[i] * way[h>>48]
	}
}

// BenchmarkOptimal reports the makespan as a multiple of the bound:
//
//	go test -run '^$' -bench Optimal -benchtime 1x ./manager/balance
func BenchmarkOptimal(b *testing.B) {
	for _, size := range []struct{ robots, hosts int }{{7, 103}, {32, 10_000}, {100, 1_000_000}} {
		b.Run(fmt.Sprintf("%dx%d", size.robots, size.hosts), func(b *testing.B) {
			cost := hashed(size.robots, size.hosts)
			for b.Loop() {
				c, err := balance.NewCosts(size.robots, size.hosts, cost)
				if err != nil {
					b.Fatal(err)
				}
				got := balance.Optimal(c)
				b.ReportMetric(got.Makespan/got.Bound, "makespan/bound")
			}
		})
	}
}
