package assign

import (
	"context"
	"database/sql"
	"slices"

	"sheaf/internal/db"
)

// Transfer is a group that is to go from one robot to another. Hosts are all hosts of the group.
type Transfer struct {
	Hosts    []string
	From, To string
}

// Move moves groups between robots and returns how many hosts it has moved. Each group may occur
// once. A group stays if From no longer has all of its hosts in slot 0, or if To already has any of
// them. It also stays if any of them is pinned to another robot that takes part. One call for many
// transfers costs much less than many calls.
func (t *Tx) Move(ctx context.Context, transfers ...Transfer) (moved int, err error) {
	var hosts []string
	for _, m := range transfers {
		hosts = append(hosts, m.Hosts...)
	}
	holders, err := holdersOf(ctx, t, hosts)
	if err != nil {
		return 0, err
	}
	pins, err := t.pins(ctx)
	if err != nil {
		return 0, err
	}
	var single [][]any // rows of host and robot, for hosts that one robot has
	for _, m := range transfers {
		if slices.ContainsFunc(m.Hosts, func(host string) bool {
			return first(holders[host]) != m.From || has(holders[host], m.To) || pins[host] != "" && pins[host] != m.To
		}) {
			continue
		}
		t.Touch(m.To)
		moved += len(m.Hosts)
		if !slices.ContainsFunc(m.Hosts, func(host string) bool { return len(holders[host]) > 1 }) {
			for _, host := range m.Hosts {
				single = append(single, []any{host, m.To})
			}
		} else if err := t.moveReplicated(ctx, m); err != nil {
			return 0, err
		}
	}
	return moved, t.moveSingle(ctx, single)
}

// moveReplicated moves a group with hosts that several robots have.
func (t *Tx) moveReplicated(ctx context.Context, m Transfer) error {
	for _, host := range m.Hosts {
		if err := t.end(ctx, host, m.From); err != nil {
			return err
		}
		if err := t.give(ctx, host, m.To, 0); err != nil {
			return err
		}
		if err := t.review(ctx, host); err != nil {
			return err
		}
	}
	return nil
}

// moveSingle moves hosts that only one robot has. Each row is a host and its new robot.
func (t *Tx) moveSingle(ctx context.Context, rows [][]any) error {
	for some := range slices.Chunk(rows, db.RowsAtOnce) {
		hosts := make([]any, len(some))
		for k, row := range some {
			hosts[k] = row[0]
		}
		if err := t.take(ctx, `a.host IN `+db.Tuple(len(hosts)), hosts...); err != nil {
			return err
		}
		g, err := t.Generation(ctx)
		if err != nil {
			return err
		}
		_, err = t.Exec(ctx, `
			WITH given (host, robot) AS (VALUES `+db.Tuples(len(some), 2)+`)
			INSERT INTO assignments (host, robot, from_generation) SELECT v.host, v.robot, CAST(? AS BIGINT) FROM given v WHERE true
			ON CONFLICT (host, robot, from_generation) DO UPDATE SET to_generation = NULL, slot = 0`, append(slices.Concat(some...), g)...)
		if err != nil {
			return err
		}
	}
	return nil
}

// holdersOf returns the robots of each host, by slot.
func holdersOf(ctx context.Context, t *Tx, hosts []string) (map[string][]holder, error) {
	found := make(map[string][]holder, len(hosts))
	for some := range slices.Chunk(hosts, db.RowsAtOnce) {
		err := db.Each(ctx, t, func(rows *sql.Rows) error {
			var host string
			var h holder
			err := rows.Scan(&host, &h.robot, &h.slot)
			found[host] = append(found[host], h)
			return err
		}, `SELECT host, robot, slot FROM assignments WHERE host IN `+db.Tuple(len(some))+` AND to_generation IS NULL ORDER BY host, slot, robot`, db.Args(some)...)
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}
