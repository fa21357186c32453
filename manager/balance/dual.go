package balance

import (
	"math"
	"math/rand/v2"
	"slices"
)

// dual is the Lagrangian dual of the problem "give each host to one robot so that the highest
// load is as low as possible". The problem is known as R||Cmax; its linear relaxation, which
// Lenstra, Shmoys and Tardos (1990) round, has the same value as this dual.
//
// Let p_i ≥ 0 be prices on the robots' time that add up to 1. A plan of makespan T costs at most
// T at these prices, and each host costs at least as much as at its cheapest robot. So no plan is
// shorter than Σ_j min_i p_i·t_ij.
//
// climb finds good prices step by step. It gives each host to the robot where it is cheapest, and
// then raises the prices of the robots that have too much.
type dual struct {
	c     *Costs
	price []float64 // adds up to 1
	loads [][]float64
	bound []float64 // sums of the workers

	best      float64 // the highest bound so far, over the candidates only
	bestPrice []float64
}

func newDual(c *Costs) *dual {
	d := &dual{c: c, price: make([]float64, c.Robots), loads: make([][]float64, workers()), bound: make([]float64, workers())}
	for w := range d.loads {
		d.loads[w] = make([]float64, c.Robots)
	}
	for i := range d.price {
		d.price[i] = 1 / float64(c.Robots)
	}
	copy(d.price, c.sampled)
	d.bestPrice = slices.Clone(d.price)
	return d
}

// climb makes a number of steps and returns the best prices found.
func (d *dual) climb(steps int) []float64 {
	for step := range steps {
		if d.c.stopped() != nil {
			break
		}
		value, loads := d.evaluate()
		if value > d.best {
			d.best = value
			copy(d.bestPrice, d.price)
		}
		if math.IsInf(value, 1) || !raise(d.price, loads, rateAt(step)) {
			break
		}
	}
	return d.bestPrice
}

// raise raises the prices of robots whose loads are above the mean, and lowers the others, so that
// they add up to 1. It returns false if there are no loads. rate must shrink from step to step so
// that the sum of all rates is infinite and the sum of their squares is not.
func raise(price, loads []float64, rate float64) bool {
	mean := 0.0
	for _, l := range loads {
		mean += l / float64(len(loads))
	}
	if mean == 0 {
		return false
	}
	total := 0.0
	for i, l := range loads {
		price[i] = max(price[i]*math.Exp(rate*min(l/mean-1, 2)), 1e-12) // a factor keeps prices above zero
		total += price[i]
	}
	for i := range price {
		price[i] /= total
	}
	return true
}

// rateAt is the rate of a step for raise.
func rateAt(step int) float64 { return 0.5 / (1 + 0.15*float64(step)) }

// evaluate returns the bound at the present prices, and the loads if each host goes to its cheapest
// robot.
func (d *dual) evaluate() (value float64, loads []float64) {
	for w := range d.loads {
		clear(d.loads[w])
		d.bound[w] = 0
	}
	parallel(d.c.Hosts, func(w, from, to int) {
		loads, sum := d.loads[w], 0.0
		for j := from; j < to; j++ {
			i, ms := d.cheapest(j)
			loads[i] += ms
			sum += ms * d.price[i]
		}
		d.bound[w] = sum
	})
	loads = d.loads[0]
	for w := range d.loads {
		value += d.bound[w]
		if w > 0 {
			for i, l := range d.loads[w] {
				loads[i] += l
			}
		}
	}
	return value, loads
}

// cheapest returns the candidate of host j that is cheapest at the present prices.
func (d *dual) cheapest(j int) (robot int32, ms float64) {
	robots, costs := d.c.candidates(j)
	least := math.Inf(1)
	robot, ms = robots[0], math.Inf(1)
	for k, i := range robots {
		if priced := costs[k] * d.price[i]; priced < least {
			least, robot, ms = priced, i, costs[k]
		}
	}
	return robot, ms
}

// prove climbs a number of steps and returns the best prices and the bound that they prove over all
// pairs. Prices that fit the candidates may leave other robots too cheap. If the prices by which
// the candidates were picked prove more, it returns these prices.
func (d *dual) prove(steps int) (price []float64, bound float64) {
	price = d.climb(steps)
	bound = lowerBound(d.c, price)
	if d.c.sampled != nil {
		if sampled := lowerBound(d.c, d.c.sampled); sampled > bound {
			price, bound = d.c.sampled, sampled
		}
	}
	return price, bound
}

// lowerBound returns a lower bound on every plan's makespan, in ms: the higher of overAll and the
// longest single host or chain.
func lowerBound(c *Costs, price []float64) float64 { return max(overAll(c, price), c.longest) }

// overAll returns the bound that the prices prove over all pairs.
func overAll(c *Costs, price []float64) float64 {
	sums := make([]float64, workers())
	c.rows(func(w, _ int, ms []float64) {
		least := math.Inf(1)
		for i, p := range price {
			if priced := ms[i] * p; priced < least {
				least = priced
			}
		}
		sums[w] += least
	})
	total := 0.0
	for _, s := range sums {
		total += s
	}
	return total
}

// Halves are the costs of hosts at each of two limits of a robot, such as its transfers and its
// line. A robot ends when both sums are through. That may be earlier than the sum of each host's
// greater cost.
type Halves struct {
	A, B Row
	ByB  []bool // by robot: its sum of B is expected to be the greater
}

// Bound returns a lower bound on every plan's makespan, in ms, if hosts cost these halves. price
// and c come from a plan that was made with other costs. The chains of c hold too. apart is the
// parameter of ReplanApart.
func (c *Costs) Bound(h Halves, price []float64, apart [][]int) float64 {
	merge := func(pick func(i int, a, b float64) float64) *Costs {
		by := *c
		by.excluded = nil
		by.row = func(j int, ms []float64) {
			b := make([]float64, len(ms))
			h.A(j, ms)
			h.B(j, b)
			for i := range ms {
				ms[i] = pick(i, ms[i], b[i])
			}
		}
		return &by
	}
	bound := c.chain
	for _, one := range []*Costs{
		merge(func(_ int, a, _ float64) float64 { return a }),
		merge(func(_ int, _, b float64) float64 { return b }),
		merge(func(i int, a, b float64) float64 {
			if h.ByB[i] {
				return b
			}
			return a
		}),
	} { // each counts one sum of a robot only
		bound = max(bound, overAll(one, price)+apartBound(one, price, apart))
	}
	single := merge(func(_ int, a, b float64) float64 { return max(a, b) })
	alone := make([]float64, workers())
	single.rows(func(w, _ int, ms []float64) { alone[w] = max(alone[w], slices.Min(ms)) })
	return max(bound, slices.Max(alone), longestApart(single, apart))
}

// apartBound returns by how much the bound of overAll rises because items of one set must be at
// different robots. The k items of a set cost at least as much as its cheapest item costs at the k
// cheapest robots.
func apartBound(c *Costs, price []float64, apart [][]int) (more float64) {
	counted := map[int]bool{}
	for _, set := range apart {
		if slices.ContainsFunc(set, func(n int) bool { return counted[n] }) {
			continue // only one of two sets may count a common item
		}
		for _, n := range set {
			counted[n] = true
		}
		at, alone := cheapestOf(c, set), 0.0
		for i := range at {
			at[i] *= price[i]
		}
		slices.Sort(at)
		for _, n := range set {
			ms := cheapestOf(c, []int{n})
			for i := range ms {
				ms[i] *= price[i]
			}
			alone += slices.Min(ms)
		}
		together := 0.0
		for k := range set {
			together += at[k]
		}
		more += max(0, together-alone)
	}
	return more
}

// longestApart returns a lower bound on the makespan: of k items of a set, one goes to a robot
// that is not among the k-1 cheapest ones.
func longestApart(c *Costs, apart [][]int) (most float64) {
	for _, set := range apart {
		at := cheapestOf(c, set)
		slices.Sort(at)
		most = max(most, at[len(set)-1])
	}
	return most
}

// cheapestOf returns for each robot the cost of the set's cheapest item.
func cheapestOf(c *Costs, set []int) []float64 {
	least, ms := slices.Repeat([]float64{math.Inf(1)}, c.Robots), make([]float64, c.Robots)
	for _, n := range set {
		clear(ms)
		c.row(n, ms)
		for i, cost := range ms {
			if cost < least[i] && (c.excluded == nil || !c.excluded(i, n)) {
				least[i] = cost
			}
		}
	}
	return least
}

// samplePrices finds prices from a sample of the hosts, before candidates are chosen. At the first
// prices, robots that are near to all hosts are dear. Then each step divides other hosts among the
// robots at which they cost about the least, and raises the prices of robots that have got too
// much.
func (c *Costs) samplePrices() []float64 {
	const steps, sample = 100, 2000
	price, sum, loads := c.reciprocals(sample), make([]float64, c.Robots), make([]float64, c.Robots)
	ms, parts, random := make([]float64, c.Robots), make([]float64, c.Robots), rand.New(rand.NewPCG(3, uint64(c.Hosts)))
	for step := range steps {
		clear(loads)
		for range sample {
			j := random.IntN(c.Hosts)
			clear(ms)
			c.row(j, ms)
			c.divide(ms, price, parts)
			for i, part := range parts {
				if part > 0 {
					loads[i] += part * ms[i]
				}
			}
		}
		if c.stopped() != nil || !raise(price, loads, rateAt(4+step)) {
			break
		}
		for i, p := range price {
			if step >= steps/2 {
				sum[i] += math.Log(p)
			}
		}
	}
	for i := range price {
		price[i] = math.Exp(sum[i] / (steps - steps/2))
	}
	return price
}

// reciprocals returns prices by robot: the less the sampled hosts cost at a robot, the higher its
// price. sample is the number of these hosts.
func (c *Costs) reciprocals(sample int) []float64 {
	logs, ms, price := make([]float64, c.Robots), make([]float64, c.Robots), make([]float64, c.Robots)
	for j := 0; j < c.Hosts; j += max(1, c.Hosts/sample) {
		clear(ms)
		c.row(j, ms)
		for i, cost := range ms {
			logs[i] += math.Log(min(max(cost, 1e-3), 1e12)) // also for 0 and +Inf
		}
	}
	least, total := slices.Min(logs), 0.0
	for i, l := range logs {
		price[i] = math.Exp(-(l - least) / float64(min(sample, c.Hosts)))
		total += price[i]
	}
	for i := range price {
		price[i] /= total
	}
	return price
}

// divide divides a host among the robots at which it costs about the least at the prices. ms are
// its costs by robot. It fills in parts, which add up to 1, or to 0 if no robot can have the host.
func (c *Costs) divide(ms, price, parts []float64) {
	least := math.Inf(1)
	for i, p := range price {
		least = min(least, ms[i]*p)
	}
	total := 0.0
	for i, p := range price {
		part := 1.0
		if priced := ms[i] * p; priced > least {
			part = least / priced
		}
		part *= part
		part *= part
		part *= part
		if parts[i] = part * part; math.IsInf(ms[i], 1) { // a robot that costs a tenth more gets a fifth as much
			parts[i] = 0
		}
		total += parts[i]
	}
	for i := range parts {
		parts[i] /= max(total, 1e-300)
	}
}
