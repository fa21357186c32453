package hosts

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
)

// OrderVisits orders an early visit to each host by the robots that have it, and returns these
// robots by host. If no robot has a host, the order is for the next robot of the host. If a host is
// not collected, it returns an error and orders nothing.
func (r *Registry) OrderVisits(ctx context.Context, hosts []string) (map[string][]string, error) {
	robots := make(map[string][]string, len(hosts))
	err := db.Transact(ctx, r.db, nil, func(tx *sql.Tx) error {
		for _, host := range hosts {
			var state State
			err := tx.QueryRowContext(ctx, `SELECT state FROM hosts WHERE name = ?`, host).Scan(&state)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			if state != Accepted {
				return assign.Invalid{Err: fmt.Errorf("%s is not collected; sheaf host add adds it", host)}
			}
			if robots[host], err = assign.RobotsOf(ctx, tx, host); err != nil {
				return err
			}
			if err := orderVisit(ctx, tx, host, robots[host]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("order visits: %w", err)
	}
	return robots, nil
}

// orderVisit stores the order that the robots visit the host. Without robots, the order is for the
// next robot of the host.
func orderVisit(ctx context.Context, tx *sql.Tx, host string, robots []string) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM visit_orders WHERE host = ?`, host); err != nil {
		return err
	}
	if len(robots) == 0 {
		robots = []string{""}
	}
	for _, robot := range robots {
		if _, err := tx.ExecContext(ctx, `INSERT INTO visit_orders (host, robot, ordered) VALUES (?, ?, ?)`, host, robot, db.Millis(time.Now())); err != nil {
			return err
		}
	}
	return nil
}

// VisitsFor deletes the robot's orders for the hosts in noted, which the robot has confirmed. It
// returns the hosts of the robot's other orders.
func (r *Registry) VisitsFor(ctx context.Context, robot string, noted []string) ([]string, error) {
	for _, host := range noted {
		if _, err := r.db.ExecContext(ctx, `DELETE FROM visit_orders WHERE host = ? AND robot IN (?, '')`, host, robot); err != nil {
			return nil, fmt.Errorf("ordered visits: %w", err)
		}
	}
	hosts, err := db.Column[string](ctx, r.db, `
		SELECT o.host FROM visit_orders o WHERE o.robot IN (?, '') AND EXISTS
			(SELECT 1 FROM assignments a WHERE a.host = o.host AND a.robot = ? AND a.to_generation IS NULL)
		ORDER BY o.host LIMIT ?`, robot, robot, wire.MaxVisits)
	if err != nil {
		return nil, fmt.Errorf("ordered visits: %w", err)
	}
	return hosts, nil
}
