package levelling

import (
	"context"
	"math"
	"slices"
	"time"

	"sheaf/internal/wire"
	"sheaf/manager/assign"
	"sheaf/manager/balance"
)

// items are what a plan assigns to robots: first the groups of hosts, then, in the day's plan, each
// further copy and share of a host that several robots have.
type items struct {
	costs  *balance.Costs
	from   balance.Plan // by item: its robot; -1: none
	hosts  [][]int      // by item
	of     []int        // by host: its group
	groups int          // how many items are groups
	apart  [][]int      // sets of items that must go to different robots
	fixed  []bool       // by host: it stays where it is
}

// joined puts the hosts into their groups. It sets no costs, and takes only the robots in slot 0.
func (s *snapshot) joined() *items {
	it := new(items)
	it.of, it.hosts = balance.Groups(len(s.hosts), func(j int) string { return s.group[j] })
	it.groups, it.from = len(it.hosts), make(balance.Plan, len(it.hosts))
	for n, hosts := range it.hosts {
		it.from[n] = -1
		for _, j := range hosts {
			if s.at[j] >= 0 {
				it.from[n] = s.at[j]
			}
		}
	}
	return it
}

// groupsOnly puts the hosts into their groups and sums up their costs.
func (s *snapshot) groupsOnly(cost balance.Func) (it *items, err error) {
	it = s.joined()
	it.costs, err = balance.NewCosts(len(s.robots), len(it.hosts), func(i, n int) float64 {
		sum := 0.0
		for _, j := range it.hosts[n] {
			sum += cost(i, j)
		}
		return sum
	})
	return it, err
}

// items returns the items to be planned. Hosts for which fixed is true stay where they are. stop
// ends the work; see balance.Pairs.
func (s *snapshot) items(fixed []bool, stop func() error) (it *items, err error) {
	it = s.joined()
	it.fixed = fixed
	for j := range s.hosts {
		if len(s.others[j]) == 0 {
			continue
		}
		set := []int{it.of[j]}
		for _, i := range s.others[j] {
			set = append(set, len(it.hosts))
			it.hosts, it.from = append(it.hosts, []int{j}), append(it.from, i)
		}
		it.apart = append(it.apart, set)
	}
	s.estimateRates()
	it.costs, err = balance.Pairs{Robots: len(s.robots), Hosts: len(it.hosts), Stop: stop, Cost: func(i, n int) float64 {
		sum := 0.0
		for _, j := range it.hosts[n] {
			if at, ok := it.stays(s, n, j); ok && at != i {
				return math.Inf(1)
			}
			sum += s.time(i, j)
		}
		return sum
	}, Row: it.row(s)}.Costs()
	return it, err
}

// stays reports whether host j of item n must stay at its robot, and returns this robot.
func (it *items) stays(s *snapshot, n, j int) (at int, ok bool) {
	if at = s.at[j]; n >= it.groups {
		at = it.from[n] // the robot of a further copy or share
	}
	return at, at >= 0 && it.fixed[j]
}

// row returns the costs of items at all robots, computed from s.
func (it *items) row(s *snapshot) balance.Row {
	return func(n int, ms []float64) {
		for _, j := range it.hosts[n] {
			s.addTimes(j, ms)
			if at, ok := it.stays(s, n, j); ok {
				for i := range ms {
					if i != at {
						ms[i] = math.Inf(1)
					}
				}
			}
		}
	}
}

// moves returns the items that a plan gives to other robots, sorted by giver. It leaves out waiting
// hosts, because the end of the transaction gives them to robots.
func (it *items) moves(to balance.Plan) (moves []int) {
	for n := range to {
		if it.from[n] >= 0 && it.from[n] != to[n] {
			moves = append(moves, n)
		}
	}
	slices.SortStableFunc(moves, func(a, b int) int { return it.from[a] - it.from[b] })
	return moves
}

// move carries out the plan for some items.
func (it *items) move(ctx context.Context, t *assign.Tx, s *snapshot, to balance.Plan, moves []int) error {
	var groups []assign.Transfer
	for _, n := range moves {
		from, to := s.robots[it.from[n]], s.robots[to[n]]
		if n < it.groups {
			groups = append(groups, assign.Transfer{Hosts: s.names(it.hosts[n]), From: from, To: to})
		} else if err := t.MoveReplica(ctx, s.hosts[it.hosts[n][0]], from, to); err != nil {
			return err
		}
	}
	_, err := t.Move(ctx, groups...)
	return err
}

// moved counts the hosts that a plan moves, including waiting hosts that it places.
func (it *items) moved(to balance.Plan) (n int) {
	for k := range to {
		if it.from[k] != to[k] {
			n += len(it.hosts[k])
		}
	}
	return n
}

// loads returns the time in ms that each robot's transfers take by a plan, without waiting hosts.
func (s *snapshot) loads(it *items, plan balance.Plan) map[string]float64 {
	ms := make(map[string]float64, len(s.robots))
	for _, robot := range s.robots {
		ms[robot] = 0
	}
	for n, i := range plan {
		if it.from[n] < 0 {
			continue
		}
		for _, j := range it.hosts[n] {
			ms[s.robots[i]] += s.weight[j] / float64(s.parts[j]) * s.slow[i]
		}
	}
	return ms
}

// Large is a host that is too large for the window of any robot (paper 001, 6.1).
type Large struct {
	Host  string  `json:"host"`
	Least float64 `json:"least_ms"` // cost at the robot where it costs least
	Parts int     `json:"parts"`    // number of parts, by the hash of the URL, that would fit
}

// large returns the hosts that no robot can collect within the window.
func (s *snapshot) large(window time.Duration) []Large {
	if window <= 0 {
		return nil
	}
	ms := float64(window.Milliseconds())
	var list []Large
	for j, host := range s.hosts {
		if at := s.at[j]; at >= 0 && s.wholeCost(at, j) <= ms {
			continue
		}
		if parts := balance.Split(s.wholeCost, len(s.robots), j, ms, wire.MaxShares); parts > 1 {
			least := math.Inf(1)
			for i := range s.robots {
				least = min(least, s.wholeCost(i, j))
			}
			list = append(list, Large{host, least, parts})
		}
	}
	return list
}

// splits returns the new number of parts for the hosts whose number changes: hosts that are too
// large for one robot's window, and hosts for which fewer parts than now are clearly enough.
func (s *snapshot) splits(large []Large, windowMS float64) map[string]int {
	const slack = 1.25 // keeps a host near the limit from being split and joined again and again
	parts := map[string]int{}
	for _, l := range large {
		parts[l.Host] = min(l.Parts, s.able)
	}
	for j, host := range s.hosts {
		if s.parts[j] < 2 {
			continue
		}
		dearer := func(i, j int) float64 { return slack * s.wholeCost(i, j) }
		if n := balance.Split(dearer, s.able, j, windowMS, s.parts[j]); n >= s.parts[j] {
			parts[host] = max(parts[host], s.parts[j])
		} else {
			parts[host] = max(parts[host], n)
		}
	}
	for host, n := range parts {
		if j, ok := slices.BinarySearch(s.hosts, host); ok && s.parts[j] == n {
			delete(parts, host)
		}
	}
	return parts
}
