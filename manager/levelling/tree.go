package levelling

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sheaf/manager/balance"
)

// Level compares the backlogs. If they differ enough, it computes what robots are to pass to their
// neighbours in the tree (paper 000, 3.3). HandOver carries it out with each robot's next
// heartbeat. Call Level every minute, in one goroutine.
func (l *Leveller) Level(ctx context.Context, now time.Time) error {
	active, err := l.active(ctx, now)
	if err != nil || l.making.Load() { // a plan levels more than this
		return err
	}
	if len(active) < 2 || !l.trigger.Fire(now, left(active), rates(active)) {
		return nil
	}
	tree, err := l.treeOf(ctx, active)
	if err != nil {
		return err
	}
	shipments := map[string][]shipment{}
	for _, s := range balance.Shipping(tree, left(active), rates(active)) {
		if from, to := active[s.From].Robot, active[s.To].Robot; s.Load >= 1 {
			shipments[from] = append(shipments[from], shipment{to, s.Load})
		}
	}
	l.planning.Lock()
	l.shipments = shipments
	l.planning.Unlock()
	return nil
}

// A tree is made from a sample of the hosts and kept for a while, because distances change slowly.
const (
	treeHosts = 2000
	treeFor   = time.Hour
)

// treeOf returns a tree whose neighbours have similar distances to the hosts.
func (l *Leveller) treeOf(ctx context.Context, list []Backlog) (balance.Tree, error) {
	names := make([]string, len(list))
	for i, b := range list {
		names[i] = b.Robot
	}
	if t := l.tree.Load(); t != nil && time.Since(t.made) < treeFor && slices.Equal(t.robots, names) {
		return t.tree, nil
	}
	s, err := l.snapshot(ctx, hostFilter{where: "h.name IN (SELECT DISTINCT host FROM costs ORDER BY host LIMIT ?)", args: []any{treeHosts}})
	if err != nil {
		return nil, err
	}
	number := make([]int, len(list))
	for i, name := range names {
		number[i], _ = s.robot(name)
	}
	c, err := balance.NewCosts(len(list), len(s.hosts), func(i, j int) float64 { return s.cost(number[i], j) })
	if err != nil {
		return nil, fmt.Errorf("balance: tree: %w", err)
	}
	tree := balance.Prim(balance.Distances(c))
	if len(s.hosts) > 0 {
		l.tree.Store(&robotTree{names, tree, time.Now()})
	}
	return tree, nil
}
