package balance

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

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
