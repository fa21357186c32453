package levelling

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"sheaf/internal/db"
	"sheaf/manager/balance"
)

// handover decides which hosts one robot, the giver, hands on.
type handover struct {
	snap   *snapshot
	giver  int
	groups grouping
	urls   []float64    // by group
	to     balance.Plan // by group
	work   work
}

// feed gives some of the giver's groups to idle robots. An idle robot's own hosts count only if
// they are on their way to it.
func (h *handover) feed(idle []string, coming coming) {
	for _, robot := range idle {
		taker, ok := h.snap.robot(robot)
		if !ok {
			continue
		}
		night := balance.Night{Waiting: make([][]int, len(h.snap.robots)), Busy: slices.Clone(h.work.busy), Pace: h.work.pace}
		night.Busy[taker] = 0
		for n, i := range h.to {
			comes := h.groups.from[n] != taker || slices.ContainsFunc(h.groups.hosts[n], func(j int) bool { return coming[robot][h.snap.hosts[j]] })
			if i == h.giver || i == taker && comes {
				night.Waiting[i] = append(night.Waiting[i], n)
			}
		}
		for _, t := range balance.Take(h.groups.costs, night, taker) {
			if t.From == h.giver {
				h.to[t.Host] = taker
			}
		}
	}
}

// ship chooses the giver's groups for the shipments.
func (l *Leveller) ship(ctx context.Context, h *handover, shipments []shipment) error {
	end := h.work.ends(h.groups.costs, h.to)
	if err := l.addWaiting(ctx, h, shipments, end); err != nil {
		return err
	}
	for _, s := range shipments {
		if to, ok := h.snap.robot(s.to); ok {
			h.shipTo(to, s.urls, end)
		}
	}
	return nil
}

// shipTo moves groups from the giver to a neighbour, the relatively nearest groups first. urls is
// the number of URLs that they may have together. end has the time at which each robot will be
// done. URLs are not time: as in balance.Take, a group stays if it costs several times as much at
// the neighbour, or would be done later there.
func (h *handover) shipTo(to int, urls float64, end []float64) {
	c, from := h.groups.costs, h.giver
	var held []int
	for n, i := range h.to {
		if i == from {
			held = append(held, n)
		}
	}
	slices.SortStableFunc(held, func(a, b int) int {
		return cmp.Compare(c.At(to, a)*c.At(from, b), c.At(to, b)*c.At(from, a))
	})
	for _, n := range held {
		here, there := c.At(from, n), c.At(to, n)
		if h.urls[n] > urls || !balance.Helps(here, there, end[from], end[to]) {
			continue
		}
		h.to[n] = to
		urls -= h.urls[n]
		end[to], end[from] = end[to]+there, end[from]-here
	}
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
			end[i] += weight * h.snap.slow[i] * max(h.work.pace[i], 1)
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
