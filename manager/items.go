package manager

import (
	"slices"

	"sheaf/manager/balance"
)

// items are what the day's plan gives to robots: groups of hosts, and then, each for itself, the
// copies and shares that further robots of hosts have.
type items struct {
	costs *balance.Costs
	from  balance.Plan
	hosts [][]int // by item
	group int     // so many items are groups
	apart [][]int // items that have to go to different robots
}

// items gives what is to be planned. A host that a robot has begun stays with it: to the others it costs infinitely much.
func (p *picture) items(cost balance.Func) (*items, error) {
	c, of, from, err := p.plan(cost)
	if err != nil {
		return nil, err
	}
	it := &items{costs: c, from: from, hosts: members(of, c.Hosts), group: c.Hosts}
	if len(p.further) == 0 {
		return it, nil
	}
	for j := range p.hosts {
		set := []int{of[j]}
		for _, i := range p.further[j] {
			set = append(set, len(it.hosts))
			it.hosts, it.from = append(it.hosts, []int{j}), append(it.from, i)
		}
		if len(set) > 1 {
			it.apart = append(it.apart, set)
		}
	}
	it.costs, err = balance.NewCosts(len(p.robots), len(it.hosts), func(i, n int) float64 {
		if n >= it.group && it.from[n] == i {
			return p.cost(i, it.hosts[n][0]) // begun or not, it may stay
		}
		sum := 0.0
		for _, j := range it.hosts[n] {
			sum += cost(i, j)
		}
		return sum
	})
	return it, err
}

// move assigns the items as planned, and reports how many hosts that moves.
func (it *items) move(e *edit, p *picture, to balance.Plan) error {
	for n := range to {
		if it.from[n] < 0 || it.from[n] == to[n] { // hosts that wait are given out by settle, by the same factors
			continue
		}
		from, to := p.robots[it.from[n]], p.robots[to[n]]
		if n >= it.group {
			if err := e.moveFurther(p.hosts[it.hosts[n][0]], from, to); err != nil {
				return err
			}
		} else if _, err := e.move(p.names(it.hosts[n]), from, to); err != nil {
			return err
		}
	}
	return nil
}

// moved counts the hosts that a plan moves.
func (it *items) moved(to balance.Plan) (n int) {
	for k := range to {
		if it.from[k] != to[k] {
			n += len(it.hosts[k])
		}
	}
	return n
}

// members gives the hosts of each group.
func members(of []int, groups int) [][]int {
	list := make([][]int, groups)
	for j, n := range of {
		list[n] = append(list[n], j)
	}
	return list
}

// splits gives into how many shares hosts are to be split: those too large for one robot's window, and those
// that were too large and have become so much smaller that fewer shares do.
func (p *picture) splits(large []Large, robots int, windowMs float64) map[string]int {
	const slack = 1.25 // so that a host near the edge is not split and joined by turns
	parts := map[string]int{}
	for _, l := range large {
		parts[l.Host] = min(l.Parts, robots)
	}
	for j, host := range p.hosts {
		if p.parts[j] < 2 {
			continue
		}
		dearer := func(i, j int) float64 { return slack * p.whole(i, j) }
		if n := balance.Split(dearer, robots, j, windowMs, p.parts[j]); n >= p.parts[j] {
			parts[host] = max(parts[host], p.parts[j])
		} else {
			parts[host] = max(parts[host], n)
		}
	}
	for host, n := range parts {
		if j, ok := slices.BinarySearch(p.hosts, host); ok && p.parts[j] == n {
			delete(parts, host)
		}
	}
	return parts
}
