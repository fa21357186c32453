package manager

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"sheaf/manager/balance"
)

// ship is what a robot is to pass to its neighbour in the tree.
type ship struct {
	to   string
	urls float64
}

// level works out what is to pass the edges of the robots' tree, where the trigger says so
// (paper 000, 3.3). It is shipped as the robots are next heard of (shed): hosts that have not been
// begun, as many as their URLs make up what is to pass each edge.
func (m *Manager) level(ctx context.Context, trigger *balance.Trigger, now time.Time) error {
	all, err := m.Backlogs(ctx)
	if err != nil {
		return err
	}
	active := slices.DeleteFunc(all, func(b Backlog) bool { return !b.active(now) })
	loads := make([]float64, len(active))
	for i, b := range active {
		loads[i] = float64(b.Left)
	}
	if len(active) < 2 || !trigger.Fire(now, loads, rates(active)) {
		return nil
	}
	tree, err := m.tree(ctx, active)
	if err != nil {
		return err
	}
	ships := map[string][]ship{}
	for _, round := range balance.Shipping(tree, loads, rates(active)) {
		for _, s := range round {
			if s.Load >= 1 {
				ships[active[s.From].Robot] = append(ships[active[s.From].Robot], ship{active[s.To].Robot, s.Load})
			}
		}
	}
	m.planning.Lock()
	defer m.planning.Unlock()
	m.ships = ships
	return nil
}

// load puts a robot's groups onto its ships.
func (m *Manager) load(ctx context.Context, p *picture, c *balance.Costs, groups [][]int, end []float64, to balance.Plan, from int, ships []ship) error {
	urls, err := m.urls(ctx, p.robots[from])
	if err != nil {
		return err
	}
	size := make([]float64, len(groups))
	for n, list := range groups {
		for _, j := range list {
			size[n] += max(1, urls[p.hosts[j]])
		}
	}
	for _, s := range ships {
		if i, ok := slices.BinarySearch(p.robots, s.to); ok {
			shipOver(c, to, size, end, from, i, s.urls)
		}
	}
	return nil
}

// shipOver passes groups worth at most so many URLs from one robot to its neighbour, those first to
// which the neighbour is relatively nearest. URLs are not time: as with Take, a group is not passed to where it
// costs several times as much, nor where it would be done later than where it is.
func shipOver(c *balance.Costs, plan balance.Plan, size, end []float64, from, to int, urls float64) {
	const dear, doubt = 3, 0.5
	var held []int
	for n, i := range plan {
		if i == from {
			held = append(held, n)
		}
	}
	slices.SortStableFunc(held, func(a, b int) int {
		return cmp.Compare(c.At(to, a)*c.At(from, b), c.At(to, b)*c.At(from, a))
	})
	for _, n := range held {
		here, there := c.At(from, n), c.At(to, n)
		if size[n] > urls || there > dear*here || end[to]+there*(1+doubt) >= end[from] {
			continue
		}
		plan[n] = to
		urls -= size[n]
		end[to], end[from] = end[to]+there, end[from]-here
	}
}

// grown is a tree of robots, and when it was made.
type grown struct {
	robots []string
	tree   balance.Tree
	at     time.Time
}

// A tree is made from so many hosts, and holds for so long: what lies near to what does not change by the hour.
const (
	treeHosts = 2000
	treeFor   = time.Hour
)

// tree joins the robots by how alike the hosts look from them.
func (m *Manager) tree(ctx context.Context, list []Backlog) (balance.Tree, error) {
	names := make([]string, len(list))
	for i, b := range list {
		names[i] = b.Robot
	}
	if t := m.grown.Load(); t != nil && time.Since(t.at) < treeFor && slices.Equal(t.robots, names) {
		return t.tree, nil
	}
	p, err := m.look(ctx, "h.name IN (SELECT DISTINCT host FROM costs ORDER BY host LIMIT ?)", treeHosts)
	if err != nil {
		return nil, err
	}
	number := make([]int, len(list))
	for i, b := range list {
		number[i], _ = slices.BinarySearch(p.robots, b.Robot)
	}
	c, err := balance.NewCosts(len(list), len(p.hosts), func(i, j int) float64 { return p.cost(number[i], j) })
	if err != nil {
		return nil, fmt.Errorf("balance: tree: %w", err)
	}
	tree := balance.Prim(balance.Distances(c))
	if len(p.hosts) > 0 {
		m.grown.Store(&grown{names, tree, time.Now()})
	}
	return tree, nil
}

// urls gives how many requests a robot's hosts took in their last night, where that was measured.
func (m *Manager) urls(ctx context.Context, robot string) (map[string]float64, error) {
	urls := map[string]float64{}
	latest := map[string]int64{}
	err := m.transact(ctx, &sql.TxOptions{ReadOnly: true}, func(tx *sql.Tx) error {
		const mine = `h.name IN (SELECT host FROM assignments WHERE robot = ? AND to_generation IS NULL)`
		return readSamples(ctx, tx, mine, []any{robot}, func(_, host string, list samples) {
			if len(list) == 0 || list[len(list)-1].hour <= latest[host] {
				return
			}
			last := list[len(list)-1].hour
			latest[host], urls[host] = last, 0
			for _, s := range list {
				if s.hour > last-12 {
					urls[host] += float64(s.requests)
				}
			}
		})
	})
	return urls, err
}
