package manager

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
)

// VisitRequest is the body of POST /v1/admin/hosts/visit.
type VisitRequest struct {
	Hosts []string `json:"hosts"`
}

// VisitResponse answers it. Robots are told with their next heartbeat; each begins within its hours.
type VisitResponse struct {
	Robots map[string][]string `json:"robots"` // by host, who is told; a host that no robot has is told to the one that gets it
}

// Visit orders hosts to be visited now, by the robots that have them. A host that is not collected is an
// error, and then nothing is ordered.
func (m *Manager) Visit(ctx context.Context, hosts []string) (map[string][]string, error) {
	robots := make(map[string][]string, len(hosts))
	err := m.transact(ctx, nil, func(tx *sql.Tx) error {
		for _, host := range hosts {
			var state State
			err := tx.QueryRowContext(ctx, `SELECT state FROM hosts WHERE name = ?`, host).Scan(&state)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			if state != Accepted {
				return badHosts{fmt.Errorf("%s is not collected; sheaf host add adds it", host)}
			}
			if robots[host], err = column[string](ctx, tx, `SELECT robot FROM assignments WHERE host = ? AND to_generation IS NULL ORDER BY robot`, host); err != nil {
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

// orderVisit writes down who is to visit a host: its robots, or whichever gets it.
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

// visitsFor returns the hosts of a robot's that are ordered to be visited, after it has taken those in taken.
func (m *Manager) visitsFor(ctx context.Context, robot string, taken []string) ([]string, error) {
	for _, host := range taken {
		if _, err := m.db.ExecContext(ctx, `DELETE FROM visit_orders WHERE host = ? AND robot IN (?, '')`, host, robot); err != nil {
			return nil, fmt.Errorf("ordered visits: %w", err)
		}
	}
	hosts, err := column[string](ctx, m.db, `
		SELECT o.host FROM visit_orders o WHERE o.robot IN (?, '') AND EXISTS
			(SELECT 1 FROM assignments a WHERE a.host = o.host AND a.robot = ? AND a.to_generation IS NULL)
		ORDER BY o.host LIMIT ?`, robot, robot, wire.MaxVisits)
	if err != nil {
		return nil, fmt.Errorf("ordered visits: %w", err)
	}
	return hosts, nil
}
