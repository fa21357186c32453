package levelling

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"sheaf/internal/db"
	"sheaf/manager/balance"
	"sheaf/manager/costs"
)

// ship chooses the hosts that pass along the edges of the tree, by the robots that have them. Each
// passes along one edge: a robot passes on only what it has already.
func (l *Leveller) ship(ctx context.Context, active []Backlog, rounds [][]balance.Ship) (map[string][]shipment, error) {
	var names, givers []string
	for i, b := range active {
		names = append(names, b.Robot)
		if slices.ContainsFunc(slices.Concat(rounds...), func(e balance.Ship) bool { return e.From == i }) {
			givers = append(givers, b.Robot)
		}
	}
	if len(givers) == 0 {
		return nil, nil
	}
	filter := movable(givers)
	filter.robots = names
	s, err := l.snapshot(ctx, filter)
	if err != nil || len(s.hosts) == 0 {
		return nil, err
	}
	h := &shipping{snap: s}
	if h.groups, err = s.groups(s.cost); err != nil {
		return nil, fmt.Errorf("balance: %w", err)
	}
	h.to = slices.Clone(h.groups.from)
	work, err := l.workOf(ctx, s, names)
	if err != nil {
		return nil, err
	}
	h.end = work.ends(h.groups.costs, h.to)
	if err := h.addWaiting(ctx, l.db, names, work); err != nil {
		return nil, err
	}
	if err := h.addSizes(ctx, l.db, givers); err != nil {
		return nil, err
	}
	for _, e := range slices.Concat(rounds...) {
		from, here := s.robot(active[e.From].Robot)
		to, there := s.robot(active[e.To].Robot)
		if here && there {
			h.along(from, to, e.Load)
		}
	}
	return h.shipments(), nil
}

// shipping decides which hosts pass along the edges of the tree.
type shipping struct {
	snap   *snapshot
	groups grouping
	to     balance.Plan // by group
	size   []float64    // by group: URLs
	end    []float64    // by robot: when it will be done, in ms from now
}

// along passes groups of at most so many URLs from one robot to another, those first that are
// relatively nearest to the other. URLs are not time: as in balance.Take, a group stays if it costs
// several times as much at the other, or would be done later there.
func (h *shipping) along(from, to int, urls float64) {
	c := h.groups.costs
	var held []int
	for n, i := range h.to { // what it is about to get stays
		if i == from && h.groups.from[n] == from {
			held = append(held, n)
		}
	}
	slices.SortStableFunc(held, func(a, b int) int {
		return cmp.Compare(c.At(to, a)*c.At(from, b), c.At(to, b)*c.At(from, a))
	})
	for _, n := range held {
		here, there := c.At(from, n), c.At(to, n)
		if h.size[n] > urls || !balance.Helps(here, there, h.end[from], h.end[to]) {
			continue
		}
		h.to[n] = to
		urls -= h.size[n]
		h.end[to], h.end[from] = h.end[to]+there, h.end[from]-here
	}
}

// shipments returns the groups that are to have another robot, by the robots that have them.
func (h *shipping) shipments() map[string][]shipment {
	list := map[string][]shipment{}
	for n, to := range h.to {
		if from := h.groups.from[n]; from >= 0 && from != to {
			giver := h.snap.robots[from]
			list[giver] = append(list[giver], shipment{h.snap.robots[to], h.snap.names(h.groups.hosts[n]), h.size[n]})
		}
	}
	return list
}

// passing returns how many URLs shipments pass from one robot to another, in one round.
func passing(shipments map[string][]shipment) [][]EdgeFlow {
	var list []EdgeFlow
	for _, from := range slices.Sorted(maps.Keys(shipments)) {
		sums := map[string]float64{}
		for _, s := range shipments[from] {
			sums[s.to] += s.urls
		}
		for _, to := range slices.Sorted(maps.Keys(sums)) {
			list = append(list, EdgeFlow{from, to, sums[to]})
		}
	}
	if list == nil {
		return [][]EdgeFlow{}
	}
	return [][]EdgeFlow{list}
}

// addWaiting adds the waiting hosts of robots none of whose hosts are in the snapshot.
func (h *shipping) addWaiting(ctx context.Context, d *sql.DB, robots []string, work work) error {
	return db.Each(ctx, d, func(rows *sql.Rows) error {
		var robot string
		var weight float64
		if err := rows.Scan(&robot, &weight); err != nil {
			return err
		}
		if i, ok := h.snap.robot(robot); ok && !slices.Contains(h.snap.at, i) {
			h.end[i] += weight * h.snap.slow[i] * max(work.pace[i], 1)
		}
		return nil
	}, `
		SELECT a.robot, SUM(COALESCE(h.weight, (SELECT typical FROM plans)))
		FROM assignments a JOIN hosts h ON h.name = a.host LEFT JOIN progress d ON d.robot = a.robot AND d.host = a.host
		WHERE a.robot IN `+db.Tuple(len(robots))+` AND a.to_generation IS NULL AND d.host IS NULL GROUP BY a.robot`, db.Args(robots)...)
}

// addSizes sets the sizes of the givers' groups.
func (h *shipping) addSizes(ctx context.Context, d *sql.DB, givers []string) error {
	h.size = make([]float64, len(h.groups.hosts))
	for _, robot := range givers {
		urls, err := requests(ctx, d, robot)
		if err != nil {
			return err
		}
		i, _ := h.snap.robot(robot)
		for n, hosts := range h.groups.hosts {
			for _, j := range hosts {
				if h.groups.from[n] == i {
					h.size[n] += max(1, urls[h.snap.hosts[j]])
				}
			}
		}
	}
	return nil
}

// requests returns how many requests a robot's hosts took in their last night, as far as
// measured.
func requests(ctx context.Context, d *sql.DB, robot string) (byHost map[string]float64, err error) {
	byHost, latest := map[string]float64{}, map[string]int64{}
	err = db.ReadOnly(ctx, d, func(tx *sql.Tx) error {
		const mine = `h.name IN (SELECT host FROM assignments WHERE robot = ? AND to_generation IS NULL)`
		return costs.Read(ctx, tx, mine, []any{robot}, func(_, host string, list costs.Samples) {
			if n, hour := list.LastNight(); hour > latest[host] {
				latest[host], byHost[host] = hour, float64(n)
			}
		})
	})
	return byHost, err
}
