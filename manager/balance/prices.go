package balance

import (
	"math"
	"math/rand/v2"
	"slices"
)

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
