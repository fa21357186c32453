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

	room  []float64 // by robot: ms left of the limit
	tried []bool    // by host: a robot is being tried for it
	price []float64
	loads []float64
}

// impossible reports whether no plan ends within the limit. If it returns false, nothing is
// proven.
func (c *Costs) impossible(limit float64, price []float64, nodes int) bool {
	p := &prover{
		c: c, limit: limit, nodes: nodes, room: slices.Repeat([]float64{limit}, c.Robots), tried: make([]bool, c.Hosts),
		price: slices.Clone(price), loads: make([]float64, c.Robots),
	}
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
	j := -1
	for step := range steps {
		var value float64
		if value, j = p.evaluate(); value > p.limit*(1+1e-9) {
			return true
		}
		if !raise(p.price, p.loads, 0.3/(1+0.1*float64(step))) {
			break
		}
	}
	if j < 0 {
		return false
	}
	var to []choice
	robots, ms := p.c.candidates(j)
	for k, i := range robots {
		if ms[k] <= p.room[i] {
			to = append(to, choice{i, ms[k], ms[k] * p.price[i]})
		}
	}
	slices.SortFunc(to, choice.compare)
	p.tried[j] = true
	defer func() { p.tried[j] = false }()
	for _, one := range to {
		room := p.room[one.robot]
		p.room[one.robot] = room - one.ms
		none := p.none(30)
		p.room[one.robot] = room
		if !none {
			return false
		}
	}
	return true // no robot can have the host
}

// evaluate returns a lower bound, at the prices, on all plans with the hosts where they are being
// tried. If the bound is above the limit, there is no such plan. largest is the host to try next:
// the host with the highest priced cost at its cheapest robot; -1: no host is left.
func (p *prover) evaluate() (value float64, largest int) {
	largest = -1
	most := 0.0
	for i := range p.loads {
		p.loads[i] = p.limit - p.room[i]
		value += p.loads[i] * p.price[i]
	}
	for j, tried := range p.tried {
		if tried {
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
			return math.Inf(1), -1
		}
		value += least
		p.loads[to] += cost
		if least > most {
			largest, most = j, least
		}
	}
	return value, largest
}
