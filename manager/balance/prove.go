package balance

import (
	"math"
	"slices"
)

// prover looks for a proof that no plan ends within a limit. It tries where the largest hosts go,
// by branch and bound over the Lagrangian dual. The dual alone treats hosts as divisible, so it
// proves little if a few hosts are a large part of a robot's night.
type prover struct {
	c     *Costs
	limit float64 // ms
	nodes int     // how many nodes of the search may still be visited

	room   []float64 // by robot: ms left of the limit
	at     []int32   // by host: the robot that is being tried; -1: none
	price  []float64
	loads  []float64
	choice []int32 // by host: the robot where it is cheapest at the prices
}

// impossible reports whether no plan ends within the limit. If it returns false, nothing is
// proven.
func (c *Costs) impossible(limit float64, price []float64, nodes int) bool {
	p := &prover{c: c, limit: limit, nodes: nodes, room: slices.Repeat([]float64{limit}, c.Robots), at: slices.Repeat([]int32{-1}, c.Hosts),
		price: slices.Clone(price), loads: make([]float64, c.Robots), choice: make([]int32, c.Hosts)}
	return p.none(200)
}

// none reports whether it can prove that no plan within the limit has the hosts where they are
// being tried. It first makes up to steps steps towards better prices.
func (p *prover) none(steps int) bool {
	if p.nodes--; p.nodes < 0 {
		return false
	}
	before := slices.Clone(p.price)
	defer copy(p.price, before)
	for step := range steps {
		value := p.evaluate()
		if value > p.limit*(1+1e-9) {
			return true
		}
		if !raise(p.price, p.loads, 0.3/(1+0.1*float64(step))) {
			break
		}
	}
	j := p.branching()
	if j < 0 {
		return false
	}
	tried := make([]bool, p.c.Robots)
	for range p.c.Robots {
		i := p.next(j, tried)
		if i < 0 {
			return true // no robot can have it
		}
		tried[i] = true
		ms := p.c.At(i, j)
		p.at[j], p.room[i] = int32(i), p.room[i]-ms
		none := p.none(30)
		p.at[j], p.room[i] = -1, p.room[i]+ms
		if !none {
			return false
		}
	}
	return true
}

// evaluate returns a lower bound, at the prices, on all plans with the hosts where they are being
// tried. If the bound is above the limit, there is no such plan.
func (p *prover) evaluate() (value float64) {
	for i := range p.loads {
		p.loads[i] = p.limit - p.room[i]
		value += p.loads[i] * p.price[i]
	}
	for j := range p.at {
		if p.at[j] >= 0 {
			continue
		}
		least, to, cost := math.Inf(1), int32(-1), 0.0
		robots, ms := p.c.candidates(j)
		for k, i := range robots {
			if ms[k] > p.room[i] {
				continue
			}
			if priced := ms[k] * p.price[i]; priced < least {
				least, to, cost = priced, i, ms[k]
			}
		}
		if to < 0 {
			return math.Inf(1)
		}
		value += least
		p.loads[to] += cost
		p.choice[j] = to
	}
	return value
}

// branching returns the host to try next: the untried host with the highest priced cost at its
// cheapest robot; -1: no host is left.
func (p *prover) branching() int {
	best, most := -1, 0.0
	for j := range p.at {
		if p.at[j] >= 0 {
			continue
		}
		i := int(p.choice[j])
		if size := p.c.At(i, j) * p.price[i]; size > most {
			best, most = j, size
		}
	}
	return best
}

// next returns the robot where host j is cheapest, of the untried robots that have room; -1: there
// is no such robot.
func (p *prover) next(j int, tried []bool) int {
	best, least := -1, math.Inf(1)
	for i := range p.c.Robots {
		ms := p.c.At(i, j)
		if tried[i] || ms > p.room[i] {
			continue
		}
		if priced := ms * p.price[i]; priced < least {
			best, least = i, priced
		}
	}
	return best
}
