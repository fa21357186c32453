package levelling

import (
	"context"

	"sheaf/manager/assign"
	"sheaf/manager/balance"
)

// items are what the day's plan gives to robots: first the groups of hosts, then each copy and
// share that a host's robots besides the first have.
type items struct {
	costs  *balance.Costs
	from   balance.Plan
	hosts  [][]int // by item
	groups int     // how many items are groups
	apart  [][]int // sets of items that have to go to different robots
}

// items returns what is to be planned at the given costs.
func (s *snapshot) items(cost balance.Func) (*items, error) {
	g, err := s.groups(cost)
	if err != nil {
		return nil, err
	}
	it := &items{costs: g.costs, from: g.from, hosts: g.hosts, groups: g.costs.Hosts}
	if len(s.others) == 0 {
		return it, nil
	}
	for j := range s.hosts {
		set := []int{g.of[j]}
		for _, i := range s.others[j] {
			set = append(set, len(it.hosts))
			it.hosts, it.from = append(it.hosts, []int{j}), append(it.from, i)
		}
		if len(set) > 1 {
			it.apart = append(it.apart, set)
		}
	}
	it.costs, err = balance.NewCosts(len(s.robots), len(it.hosts), func(i, n int) float64 {
		if n >= it.groups && it.from[n] == i {
			return s.time(i, it.hosts[n][0]) // it may stay, even if it was begun
		}
		sum := 0.0
		for _, j := range it.hosts[n] {
			sum += cost(i, j)
		}
		return sum
	})
	return it, err
}

// move assigns the items as planned. Hosts that wait are left to the end of the transaction,
// which goes by the same factors.
func (it *items) move(ctx context.Context, t *assign.Tx, s *snapshot, to balance.Plan) error {
	for n := range to {
		if it.from[n] < 0 || it.from[n] == to[n] {
			continue
		}
		from, to := s.robots[it.from[n]], s.robots[to[n]]
		if n >= it.groups {
			if err := t.MoveReplica(ctx, s.hosts[it.hosts[n][0]], from, to); err != nil {
				return err
			}
		} else if _, err := t.Move(ctx, s.names(it.hosts[n]), from, to); err != nil {
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
