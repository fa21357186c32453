package assign

import (
	"context"
	"database/sql"

	"sheaf/internal/db"
)

// A pin says which robot is to collect a host, by an operator's word. It holds for all hosts of the
// group. Nothing moves pinned hosts to another robot as long as their robot takes part. While it
// takes none, others have them.

// Pin pins all hosts of a group to a robot, gives them to it if it takes part, and returns them. An
// empty name takes the pin back.
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
	return hosts, t.toPinned(ctx, group, robot)
}

// toPinned moves a group to the robot that it is pinned to. Hosts that wait go there by themselves.
func (t *Tx) toPinned(ctx context.Context, group, robot string) error {
	owner, err := OwnerOf(ctx, t, group)
	if err != nil || robot == "" || owner == "" || owner == robot {
		return err
	}
	assigned, err := db.Column[string](ctx, t, `
		SELECT h.name FROM hosts h CROSS JOIN assignments a WHERE h.grp = ? AND a.host = h.name AND a.robot = ? AND a.to_generation IS NULL ORDER BY h.name`, group, owner)
	if err != nil {
		return err
	}
	_, err = t.Move(ctx, Transfer{Hosts: assigned, From: owner, To: robot})
	return err
}

// recall gives a robot that takes part again the hosts that are pinned to it.
func (t *Tx) recall(ctx context.Context, robot string) error {
	groups, err := db.Column[string](ctx, t, `SELECT DISTINCT grp FROM hosts WHERE pinned <> '' AND pinned = ?`, robot)
	for _, group := range groups {
		if err := t.toPinned(ctx, group, robot); err != nil {
			return err
		}
	}
	return err
}

// pins returns by host the robots that hosts are pinned to, as far as these take part.
func (t *Tx) pins(ctx context.Context) (map[string]string, error) {
	pins := map[string]string{}
	return pins, db.Each(ctx, t, func(rows *sql.Rows) error {
		var host, robot string
		err := rows.Scan(&host, &robot)
		pins[host] = robot
		return err
	}, `SELECT h.name, h.pinned FROM hosts h JOIN robots r ON r.name = h.pinned WHERE h.pinned <> '' AND r.subscribed = 1 AND r.lapsed = 0`)
}
