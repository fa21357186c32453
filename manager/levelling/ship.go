package levelling

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"sheaf/internal/db"
	"sheaf/manager/balance"
)

// handover decides which hosts one robot, the giver, hands on.
type handover struct {
	snap   *snapshot
	giver  int
	groups *items
	urls   []float64    // by group
	to     balance.Plan // by group
	busy   []float64    // by robot: expected ms until the hosts that it has begun are done
	pace   []float64    // by robot: time that its hosts took, as a multiple of the expected time; 1 if that is not known
}

// readWork sums up the progress of some of the snapshot's robots, as busy and pace. It knows
// nothing of the others.
func (h *handover) readWork(ctx context.Context, q db.Queryer, robots []string) error {
	n := len(h.snap.robots)
	h.busy, h.pace = make([]float64, n), slices.Repeat([]float64{1}, n)
	expected, inHand := make([]float64, n), make([]float64, n)
	took, spent := make([]float64, n), make([]float64, n)
	err := db.Each(ctx, q, func(rows *sql.Rows) error {
		var robot, state string
		var weight, ms, all float64
		if err := rows.Scan(&robot, &state, &weight, &ms, &all); err != nil {
			return err
		}
		i, ok := h.snap.robot(robot)
		if !ok {
			return nil
		}
		spent[i] = all
		if state == "done" {
			expected[i], took[i] = weight*h.snap.slow[i], ms
		} else {
			inHand[i] = weight * h.snap.slow[i]
		}
		return nil
	}, `
		SELECT d.robot, d.state, SUM(COALESCE(h.weight, (SELECT typical FROM plans))), SUM(d.ms), MAX(b.ms)
		FROM progress d JOIN hosts h ON h.name = d.host JOIN heartbeats b ON b.robot = d.robot
		WHERE d.robot IN `+db.Tuple(len(robots))+` GROUP BY d.robot, d.state`, db.Args(robots)...)
	if err != nil {
		return fmt.Errorf("progress: %w", err)
	}
	for i := range n {
		if expected[i] > 0 && took[i] > 0 {
			h.pace[i] = took[i] / expected[i]
		}
		h.busy[i] = max(0, inHand[i]*h.pace[i]-max(0, spent[i]-took[i]))
	}
	return nil
}

// ends returns the ms from now until each robot has finished the hosts that it has begun and the
// groups that it is to have.
func (h *handover) ends() []float64 {
	end := slices.Clone(h.busy)
	for n, i := range h.to {
		if i >= 0 {
			end[i] += h.groups.costs.At(i, n) * h.pace[i]
		}
	}
	return end
}

// feed gives some of the giver's groups to idle robots. An idle robot's own hosts count only if
// they are on their way to it.
func (h *handover) feed(idle []string, coming coming) {
	for _, robot := range idle {
		taker, ok := h.snap.robot(robot)
		if !ok {
			continue
		}
		end := h.ends()
		end[taker] = 0
		for n, i := range h.to {
			comes := h.groups.from[n] != taker || slices.ContainsFunc(h.groups.hosts[n], func(j int) bool { return coming[robot][h.snap.hosts[j]] })
			if i == taker && comes {
				end[taker] += h.groups.costs.At(taker, n) * h.pace[taker]
			}
		}
		h.pass(taker, end, nil)
	}
}

// pass gives groups of the giver to another robot. See balance.Take.
func (h *handover) pass(to int, end []float64, may func(n int) bool) {
	var held []int
	for n, i := range h.to {
		if i == h.giver {
			held = append(held, n)
		}
	}
	for _, n := range balance.Take(h.groups.costs, held, h.giver, to, h.pace, end, may) {
		h.to[n] = to
	}
}

// ship chooses the giver's groups for the shipments. URLs are not time: a group stays if it costs
// several times as much at the neighbour, or would be done later there.
func (l *Leveller) ship(ctx context.Context, h *handover, shipments []shipment) error {
	end := h.ends()
	if err := l.addWaiting(ctx, h, shipments, end); err != nil {
		return err
	}
	for _, s := range shipments {
		to, ok := h.snap.robot(s.to)
		if !ok {
			continue
		}
		urls := s.urls // that are left of the shipment
		h.pass(to, end, func(n int) bool {
			if h.urls[n] > urls {
				return false
			}
			urls -= h.urls[n]
			return true
		})
	}
	return nil
}

// addWaiting adds to the ends the time that waiting hosts take at robots that get shipments. It
// skips the giver and idle robots, whose hosts are in the snapshot.
func (l *Leveller) addWaiting(ctx context.Context, h *handover, shipments []shipment, end []float64) error {
	var takers []string
	for _, s := range shipments {
		takers = append(takers, s.to)
	}
	return db.Each(ctx, l.db, func(rows *sql.Rows) error {
		var robot string
		var weight float64
		if err := rows.Scan(&robot, &weight); err != nil {
			return err
		}
		if i, ok := h.snap.robot(robot); ok && i != h.giver && !slices.Contains(h.snap.at, i) {
			end[i] += weight * h.snap.slow[i] * max(h.pace[i], 1)
		}
		return nil
	}, `
		SELECT a.robot, SUM(COALESCE(h.weight, (SELECT typical FROM plans)))
		FROM assignments a JOIN hosts h ON h.name = a.host LEFT JOIN progress d ON d.robot = a.robot AND d.host = a.host
		WHERE a.robot IN `+db.Tuple(len(takers))+` AND a.to_generation IS NULL AND d.host IS NULL GROUP BY a.robot`, db.Args(takers)...)
}

// requests returns each group's requests in the last night that was measured at any robot. A host
// counts as one request if nothing is known of it or the giver does not have it.
func (l *Leveller) requests(ctx context.Context, h *handover) ([]float64, error) {
	requests, latest := map[string]float64{}, map[string]int64{}
	err := db.ReadOnly(ctx, l.db, func(tx *sql.Tx) error {
		const mine = `h.name IN (SELECT host FROM assignments WHERE robot = ? AND to_generation IS NULL)`
		return ReadLog(ctx, tx, mine, []any{h.snap.robots[h.giver]}, func(_, host string, list Samples) {
			if n, hour := list.LastNight(); hour > latest[host] {
				latest[host], requests[host] = hour, float64(n)
			}
		})
	})
	urls := make([]float64, len(h.groups.hosts))
	for n, list := range h.groups.hosts {
		for _, j := range list {
			urls[n] += max(1, requests[h.snap.hosts[j]])
		}
	}
	return urls, err
}

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
