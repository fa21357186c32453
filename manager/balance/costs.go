package balance

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
)

// Func returns the cost in milliseconds of host j at robot i: zero or more, or +Inf if the robot
// cannot collect the host. It is called from several goroutines at once.
type Func func(i, j int) float64

// Costs are the costs of hosts at robots. For each host they name the candidates: the robots to
// which it may sensibly go. Costs do not change.
type Costs struct {
	Robots, Hosts int

	all     Func
	relaxed Func    // all without the pairs that WithChains excludes: enough for lower bounds
	longest float64 // ms; no plan is shorter, because of one host or, see WithChains, one chain
	// The candidates of host j are robot[j*keep:(j+1)*keep], with their costs in ms. The cheapest
	// at the prices by which they were picked comes first.
	keep  int
	robot []int32
	ms    []float64
}

// few is the number of pairs up to which all robots are candidates of every host.
const few = 4 << 20

// Candidates is the number of candidates of a host if there are too many pairs to consider all.
// At 32 robots, the 8 robots with the lowest cost make the plan 0.9 % longer; candidates are
// chosen by cost times price, which loses less.
const Candidates = 8

// NewCosts takes the costs of hosts at robots from a function. It fails if a cost is negative or
// NaN, or if no robot can collect a host.
func NewCosts(robots, hosts int, cost Func) (*Costs, error) {
	if robots < 1 || hosts < 0 {
		return nil, fmt.Errorf("%d robots and %d hosts: want one robot or more", robots, hosts)
	}
	c := &Costs{Robots: robots, Hosts: hosts, all: cost, relaxed: cost, keep: robots}
	price := ones(robots)
	if robots > Candidates && robots*hosts > few {
		price = c.samplePrices()
		c.keep = Candidates
	}
	c.robot = make([]int32, hosts*c.keep)
	c.ms = make([]float64, hosts*c.keep)
	return c, c.pick(price)
}

// Matrix takes costs from a table: t[i][j] is the cost of host j at robot i.
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

// At returns the cost of host j at robot i.
func (c *Costs) At(i, j int) float64 { return c.all(i, j) }

// candidates returns the candidates of host j and its costs at them.
func (c *Costs) candidates(j int) ([]int32, []float64) {
	return c.robot[j*c.keep : (j+1)*c.keep], c.ms[j*c.keep : (j+1)*c.keep]
}

// pick fills in each host's candidates: the robots that are cheapest at the prices. It also finds
// the host that takes longest where it is nearest.
func (c *Costs) pick(price []float64) error {
	errs, longest := make([]error, workers()), make([]float64, workers())
	parallel(c.Hosts, func(w, from, to int) {
		type choice struct {
			robot      int32
			ms, priced float64
		}
		choices := make([]choice, c.Robots)
		for j := from; j < to; j++ {
			least := math.Inf(1)
			for i := range choices {
				ms := c.all(i, j)
				if !(ms >= 0) {
					errs[w] = fmt.Errorf("cost of host %d at robot %d is %v ms: want 0 or more", j, i, ms)
					return
				}
				least = min(least, ms)
				choices[i] = choice{int32(i), ms, ms * price[i]}
			}
			if longest[w] = max(longest[w], least); math.IsInf(least, 1) {
				errs[w] = fmt.Errorf("host %d can be collected by no robot", j)
				return
			}
			if c.keep < c.Robots { // sort only the first keep
				for k := range c.keep {
					best := k
					for n := k + 1; n < len(choices); n++ {
						if choices[n].priced < choices[best].priced {
							best = n
						}
					}
					choices[k], choices[best] = choices[best], choices[k]
				}
			} else {
				slices.SortFunc(choices, func(a, b choice) int {
					return cmp.Or(cmp.Compare(a.priced, b.priced), cmp.Compare(a.robot, b.robot))
				})
			}
			robots, ms := c.candidates(j)
			for k := range robots {
				robots[k], ms[k] = choices[k].robot, choices[k].ms
			}
		}
	})
	c.longest = slices.Max(longest)
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// samplePrices finds the robots' prices on some of the hosts. That is enough to tell which robots
// will be dear, before candidates are chosen.
func (c *Costs) samplePrices() []float64 {
	const sample = 10_000
	step := max(1, c.Hosts/sample)
	n := (c.Hosts + step - 1) / step
	part := &Costs{Robots: c.Robots, Hosts: n, keep: c.Robots, all: func(i, j int) float64 { return c.all(i, j*step) }}
	part.robot, part.ms = make([]int32, n*c.Robots), make([]float64, n*c.Robots)
	price := ones(c.Robots)
	if part.pick(price) != nil { // the caller meets the same error next, with the host's number
		return price
	}
	return newDual(part, math.Inf(1)).climb(100)
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
