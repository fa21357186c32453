package balance

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
)

// Func returns the cost in milliseconds of host j at robot i: zero or more, or +Inf if the robot
// cannot collect the host. It is called from several goroutines at once.
type Func func(i, j int) float64

// Row adds the costs of host j at all robots to ms, by robot. It gives the same costs as a Func,
// but much quicker, because it gives all costs of a host at once. It is called from several
// goroutines at once.
type Row func(j int, ms []float64)

// Pairs are the robots, hosts and costs from which Costs are made.
type Pairs struct {
	Robots, Hosts int
	Cost          Func
	Row           Row          // nil: computed by Cost
	Stop          func() error // called often, from several goroutines; its error ends all work on the costs. nil: nothing ends it
}

// Costs are the costs of hosts at robots. For each host they name the candidates: the robots to
// which the plan may give it. Costs are immutable.
type Costs struct {
	Robots, Hosts int

	cost     Func
	row      Row
	excluded func(i, j int) bool // pairs that WithChains excludes; nil: none. Lower bounds ignore it
	stop     func() error
	longest  float64 // ms; a lower bound on every plan, from one host or, after WithChains, one chain
	chain    float64 // ms; a lower bound on every plan from one chain; see WithChains
	// The candidates of host j are robot[j*keep:(j+1)*keep], with their costs in ms. The first is
	// the cheapest at the prices in sampled.
	keep    int
	sampled []float64 // prices by which candidates were picked; nil: all robots are candidates
	robot   []int32
	ms      []float64
}

// few is the number of pairs up to which all robots are candidates of every host.
const few = 4 << 20

// Candidates is the number of candidates of a host if there are too many pairs to consider all. At
// 32 robots, choosing the 8 with the lowest cost makes the plan 0.9 % longer; choosing by cost
// times price loses less. If costs are only estimated, many priced costs are nearly equal, and the
// same few robots would be the cheapest for all hosts. So half of each host's candidates are chosen
// with a random noise added to the priced costs.
const (
	Candidates = 8
	noise      = 0.3 // highest noise, as a part of the priced cost
)

// NewCosts makes Costs from a function. It fails if a cost is negative or NaN, or if no robot can
// collect a host.
func NewCosts(robots, hosts int, cost Func) (*Costs, error) {
	return Pairs{Robots: robots, Hosts: hosts, Cost: cost}.Costs()
}

// Costs makes Costs from pairs, as NewCosts does. It also takes costs by row, and can be stopped.
func (p Pairs) Costs() (*Costs, error) {
	if p.Robots < 1 || p.Hosts < 0 {
		return nil, fmt.Errorf("%d robots and %d hosts: want one robot or more", p.Robots, p.Hosts)
	}
	c := &Costs{Robots: p.Robots, Hosts: p.Hosts, cost: p.Cost, row: p.Row, stop: p.Stop}
	if c.row == nil {
		c.row = func(j int, ms []float64) {
			for i := range ms {
				ms[i] += p.Cost(i, j)
			}
		}
	}
	return c, c.choose()
}

// choose fills in the candidates.
func (c *Costs) choose() error {
	price := ones(c.Robots)
	c.keep = c.Robots
	if c.Robots > Candidates && c.Robots*c.Hosts > few {
		price = c.samplePrices()
		c.keep, c.sampled = Candidates, price
	}
	c.robot = make([]int32, c.Hosts*c.keep)
	c.ms = make([]float64, c.Hosts*c.keep)
	return c.pick(price)
}

// Matrix makes Costs from a table: t[i][j] is the cost of host j at robot i.
func Matrix(t [][]float64) (*Costs, error) {
	if len(t) == 0 {
		return nil, fmt.Errorf("no robots")
	}
	for i, row := range t {
		if len(row) != len(t[0]) {
			return nil, fmt.Errorf("robot %d has costs of %d hosts, robot 0 of %d", i, len(row), len(t[0]))
		}
	}
	return NewCosts(len(t), len(t[0]), func(i, j int) float64 { return t[i][j] })
}

// At returns the cost of host j at robot i in ms, +Inf for an excluded pair.
func (c *Costs) At(i, j int) float64 {
	if c.excluded != nil && c.excluded(i, j) {
		return math.Inf(1)
	}
	return c.cost(i, j)
}

// stopped returns the reason to end the work, or nil.
func (c *Costs) stopped() error {
	if c.stop == nil {
		return nil
	}
	return c.stop()
}

// rows calls f with the costs of each host at all robots, without regard to excluded pairs, until
// the work is stopped. w is the number of the calling goroutine. f must not keep ms.
func (c *Costs) rows(f func(w, j int, ms []float64)) {
	parallel(c.Hosts, func(w, from, to int) {
		ms := make([]float64, c.Robots)
		for j := from; j < to; j++ {
			if j%1024 == 0 && c.stopped() != nil {
				return
			}
			clear(ms)
			c.row(j, ms)
			f(w, j, ms)
		}
	})
}

// candidates returns the candidates of host j and its costs at them.
func (c *Costs) candidates(j int) ([]int32, []float64) {
	return c.robot[j*c.keep : (j+1)*c.keep], c.ms[j*c.keep : (j+1)*c.keep]
}

func ones(n int) []float64 { return slices.Repeat([]float64{1}, n) }

func workers() int { return runtime.GOMAXPROCS(0) }

// parallel calls f at once on parts [from, to) of [0, n). w is the number of the part.
func parallel(n int, f func(w, from, to int)) {
	parts := workers()
	if n < 20_000 {
		f(0, 0, n)
		return
	}
	var wg sync.WaitGroup
	for w := range parts {
		wg.Go(func() { f(w, n*w/parts, n*(w+1)/parts) })
	}
	wg.Wait()
}
