package balance

import (
	"cmp"
	"errors"
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

// choice is a robot to which a host may go.
type choice struct {
	robot      int32
	ms, priced float64
}

func (a choice) compare(b choice) int {
	return cmp.Or(cmp.Compare(a.priced, b.priced), cmp.Compare(a.robot, b.robot))
}

// choices are the cheapest robots for a host, the cheapest first.
type choices []choice

// worst returns the priced cost below which a robot gets into a full list; +Inf if there is room.
func (b choices) worst() float64 {
	if len(b) < cap(b) {
		return math.Inf(1)
	}
	return b[len(b)-1].priced
}

// add adds a choice. If there are then too many, it drops and returns the dearest, perhaps the new
// one.
func (b *choices) add(one choice) (dropped choice, ok bool) {
	if len(*b) == cap(*b) {
		dropped, ok = (*b)[len(*b)-1], true
		if one.compare(dropped) >= 0 {
			return one, true
		}
		*b = (*b)[:len(*b)-1]
	}
	at, _ := slices.BinarySearchFunc(*b, one, choice.compare)
	*b = slices.Insert(*b, at, one)
	return dropped, ok
}

// picker picks the candidates of one host after the other.
type picker struct {
	cheapest choices
	noisy    choices // the cheapest of the other robots once noise is added
}

// pick fills in each host's candidates: the robots that are cheapest at the prices. It also sets
// c.longest: the time of the host that takes longest at its cheapest robot.
func (c *Costs) pick(price []float64) error {
	errs, longest, pickers := make([]error, workers()), make([]float64, workers()), make([]picker, workers())
	for w := range pickers {
		half := c.keep
		if c.keep < c.Robots {
			half = c.keep / 2
		}
		pickers[w] = picker{make(choices, 0, half), make(choices, 0, c.keep-half)}
	}
	c.rows(func(w, j int, ms []float64) {
		if errs[w] != nil {
			return
		}
		p := &pickers[w]
		var least float64
		if least, errs[w] = p.pick(c, j, ms, price); errs[w] != nil {
			return
		}
		if longest[w] = max(longest[w], least); math.IsInf(least, 1) {
			errs[w] = fmt.Errorf("host %d can be collected by no robot", j)
			return
		}
		robots, costs := c.candidates(j)
		for k := range robots {
			one := choice{robot: int32(k), ms: math.Inf(1)}
			if rest := k - len(p.cheapest); rest < 0 {
				one = p.cheapest[k]
			} else if rest < len(p.noisy) {
				one = p.noisy[rest]
			}
			robots[k], costs[k] = one.robot, one.ms
		}
	})
	c.longest = slices.Max(longest)
	return errors.Join(append(errs, c.stopped())...)
}

// pick finds the candidates of host j and returns its lowest cost. ms are its costs at all robots.
// It checks whether a pair is excluded only if that matters, because the check takes longer than
// looking at many costs.
func (p *picker) pick(c *Costs, j int, ms, price []float64) (least float64, err error) {
	p.cheapest, p.noisy = p.cheapest[:0], p.noisy[:0]
	least = math.Inf(1)
	some := c.keep < c.Robots
	random := uint64(j)*0x9e3779b97f4a7c15 + 1
	limit := math.Inf(1) // a robot with this priced cost, or more, is no candidate
	price = price[:len(ms)]
	for i, cost := range ms {
		priced := cost * price[i]
		if some && priced >= limit && cost >= least {
			continue
		}
		if !(cost >= 0) {
			return 0, fmt.Errorf("cost of host %d at robot %d is %v ms: want 0 or more", j, i, cost)
		}
		if c.excluded != nil && c.excluded(i, j) {
			cost, priced = math.Inf(1), math.Inf(1)
		}
		least = min(least, cost)
		one, left := choice{int32(i), cost, priced}, false
		if !some {
			p.cheapest = append(p.cheapest, one)
			continue
		}
		if one, left = p.cheapest.add(one); left {
			random ^= random << 13
			random ^= random >> 7
			random ^= random << 17
			one.priced *= 1 + noise*float64(random>>11)/(1<<53)
			p.noisy.add(one)
		}
		limit = max(p.cheapest.worst(), p.noisy.worst())
	}
	if !some {
		slices.SortFunc(p.cheapest, choice.compare)
	}
	return least, nil
}

// WithChains returns the costs for hosts that also have chains. The chain of a host at a robot is
// the time in ms that its visits take one after the other, with the intervals between them. It
// runs beside the robot's other hosts, so it adds nothing to the robot's sum; but no robot ends
// before its longest chain does. The new costs exclude the pairs whose chain would end after the
// rest of the night, and their lower bound includes the chains.
func (c *Costs) WithChains(chain Func) (*Costs, error) {
	shortest, most := c.longestChain(chain)
	if shortest == 0 || math.IsInf(shortest, 1) {
		return c, c.stopped()
	}
	with := *c
	limit := shortest * enough
	if most > limit {
		d := newDual(c)
		d.climb(60)
		limit = max(limit, d.best*enough)
	}
	with.excluded = func(i, j int) bool { return chain(i, j) > limit }
	if most > limit { // some candidates are excluded
		if err := with.choose(); err != nil {
			return nil, err
		}
	}
	with.longest, with.chain = max(with.longest, shortest), shortest
	return &with, nil
}

// longestChain returns two lengths in ms. shortest: of the shortest chain that each host has at any
// robot, the longest; no plan avoids it. most: the longest chain of all candidates.
func (c *Costs) longestChain(chain Func) (shortest, most float64) {
	unavoidable, longest := make([]float64, workers()), make([]float64, workers())
	parallel(c.Hosts, func(w, from, to int) {
		for j := from; j < to; j++ {
			if j%1024 == 0 && c.stopped() != nil {
				return
			}
			least := math.Inf(1)
			robots, costs := c.candidates(j)
			for k, i := range robots {
				if !math.IsInf(costs[k], 1) {
					ms := chain(int(i), j)
					least, longest[w] = min(least, ms), max(longest[w], ms)
				}
			}
			if least <= unavoidable[w] {
				continue // other robots could only make it shorter
			}
			for i := 0; i < c.Robots && least > unavoidable[w]; i++ {
				if !math.IsInf(c.At(i, j), 1) {
					least = min(least, chain(i, j))
				}
			}
			unavoidable[w] = max(unavoidable[w], least)
		}
	})
	return slices.Max(unavoidable), slices.Max(longest)
}

// Groups joins hosts that must go to one robot, such as the hosts of one address, into groups.
// group names the group of host j. It returns the group number of each host, and the hosts of each
// group. Groups are numbered in the order of their first hosts.
func Groups(hosts int, group func(j int) string) (of []int, members [][]int) {
	number := make(map[string]int)
	of = make([]int, hosts)
	for j := range hosts {
		name := group(j)
		n, ok := number[name]
		if !ok {
			n = len(members)
			number[name] = n
			members = append(members, nil)
		}
		of[j] = n
		members[n] = append(members[n], j)
	}
	return of, members
}

// Split returns into how many parts, by the hash of the URL, host j must be split among robots so
// that each part fits into the window (paper 001, 6.1). It returns 1 if the whole host fits or the
// window is not known, and never more than most or than robots. Together the parts keep the host's
// interval: with n parts, each robot waits n intervals between visits.
func Split(cost Func, robots, j int, windowMs float64, most int) int {
	least := math.Inf(1)
	for i := range robots {
		least = min(least, cost(i, j))
	}
	if !(windowMs > 0) || math.IsInf(least, 1) {
		return 1
	}
	return max(1, min(most, robots, int(math.Ceil(least/windowMs))))
}
