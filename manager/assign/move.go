package assign

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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

// A pin is an operator's choice of the robot that collects a host. It holds for all hosts of the
// group. While the robot takes part, nothing moves its pinned hosts to another robot. While it
// takes no part, other robots have them.

// Pin pins all hosts of a group to a robot, gives them to the robot if it takes part, and returns
// the group's accepted hosts. An empty robot removes the pin.
func (t *Tx) Pin(ctx context.Context, group, robot, reason string) (hosts []string, err error) {
	if robot == "" {
		reason = ""
	}
	if _, err := t.Exec(ctx, `UPDATE hosts SET pinned = ?, pin_reason = ? WHERE grp = ?`, robot, reason, group); err != nil {
		return nil, err
	}
	if hosts, err = db.Column[string](ctx, t, `SELECT name FROM hosts WHERE grp = ? AND state = 'accepted' ORDER BY name`, group); err != nil {
		return nil, err
	}
	return hosts, t.toPinned(ctx, robot, group)
}

// Joined extends a pin to all hosts of a group after a host has joined it: the group's pin or, if
// the group had none, the host's pin.
func (t *Tx) Joined(ctx context.Context, group, host string) error {
	var robot, reason string
	err := t.QueryRowContext(ctx, `
		SELECT pinned, pin_reason FROM hosts WHERE grp = ? AND pinned <> '' ORDER BY CASE WHEN name = ? THEN 1 ELSE 0 END, name LIMIT 1`, group, host).Scan(&robot, &reason)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		_, err = t.Pin(ctx, group, robot, reason)
	}
	return err
}

// pinWaiting extends a group's pin to the waiting hosts of the group.
func (t *Tx) pinWaiting(ctx context.Context) error {
	const of = `(SELECT p.%s FROM hosts p WHERE p.grp = hosts.grp AND p.pinned <> '' ORDER BY p.name LIMIT 1)`
	_, err := t.Exec(ctx, `UPDATE hosts SET pinned = `+fmt.Sprintf(of, "pinned")+`, pin_reason = `+fmt.Sprintf(of, "pin_reason")+`
		WHERE waiting = 1 AND pinned = '' AND grp IN (SELECT g.grp FROM hosts g WHERE g.pinned <> '')`)
	return err
}

// toPinned moves groups to the robot that they are pinned to, if it takes part. It skips waiting
// hosts, which assignWaiting gives to that robot.
func (t *Tx) toPinned(ctx context.Context, robot string, groups ...string) error {
	var takesPart bool
	err := t.QueryRowContext(ctx, `SELECT COUNT(*) > 0 FROM robots WHERE name = ? AND subscribed = 1 AND lapsed = 0`, robot).Scan(&takesPart)
	if err != nil || !takesPart {
		return err
	}
	var transfers []Transfer
	for _, group := range groups {
		owner, err := OwnerOf(ctx, t, group)
		if err != nil {
			return err
		}
		if owner == "" || owner == robot {
			continue
		}
		assigned, err := db.Column[string](ctx, t, `
			SELECT h.name FROM hosts h CROSS JOIN assignments a WHERE h.grp = ? AND a.host = h.name AND a.robot = ? AND a.to_generation IS NULL ORDER BY h.name`, group, owner)
		if err != nil {
			return err
		}
		transfers = append(transfers, Transfer{Hosts: assigned, From: owner, To: robot})
	}
	if len(transfers) > 0 {
		_, err = t.Move(ctx, transfers...)
	}
	return err
}

// recall moves a robot's pinned hosts back to it, if it takes part.
func (t *Tx) recall(ctx context.Context, robot string) error {
	groups, err := db.Column[string](ctx, t, `SELECT DISTINCT grp FROM hosts WHERE pinned <> '' AND pinned = ?`, robot)
	if err != nil || len(groups) == 0 {
		return err
	}
	return t.toPinned(ctx, robot, groups...)
}

// pins returns the robot of each pinned host, if the robot takes part.
func (t *Tx) pins(ctx context.Context) (map[string]string, error) {
	return db.Pairs[string, string](ctx, t, `SELECT h.name, h.pinned FROM hosts h JOIN robots r ON r.name = h.pinned WHERE h.pinned <> '' AND r.subscribed = 1 AND r.lapsed = 0`)
}
