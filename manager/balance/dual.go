package balance

import (
	"math"
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
