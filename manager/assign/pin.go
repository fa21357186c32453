package assign

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"sheaf/internal/db"
)

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
