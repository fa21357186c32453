package manager

import (
	"context"
	"fmt"
	"time"

	"sheaf/internal/db"
)

// Decide accepts or refuses hosts that robots found and that are Pending, and returns how many. A named
// host that is not pending is an error, and then nothing is changed.
func (m *Manager) Decide(ctx context.Context, req DecideRequest) (int, error) {
	if req.State != Accepted && req.State != Refused {
		return 0, badHosts{fmt.Errorf("state %q is neither %s nor %s", req.State, Accepted, Refused)}
	}
	chosen, err := m.pending(ctx, req)
	if err != nil {
		return 0, err
	}
	var at map[string]addresses
	if req.State == Accepted {
		at = m.resolve(ctx, chosen) // before a transaction is open
	}
	decided := 0
	err = m.edit(ctx, func(e *edit) error {
		decided = 0
		for _, host := range chosen {
			n, err := e.exec(`UPDATE hosts SET state = ?, waiting = ? WHERE name = ? AND state = ?`, req.State, req.State == Accepted, host, Pending)
			if err != nil {
				return err
			}
			decided += int(n)
			if n > 0 && len(at[host]) > 0 {
				if err := e.setAddresses(host, at[host], db.Millis(time.Now())); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return decided, err
}

// pending returns the pending hosts that a request chooses.
func (m *Manager) pending(ctx context.Context, req DecideRequest) ([]string, error) {
	rows, err := m.db.QueryContext(ctx, `SELECT name, source FROM hosts WHERE state = ? ORDER BY name`, Pending)
	if err != nil {
		return nil, fmt.Errorf("pending hosts: %w", err)
	}
	defer rows.Close()
	named := make(map[string]bool, len(req.Hosts))
	for _, host := range req.Hosts {
		named[host] = true
	}
	var chosen []string
	for rows.Next() {
		var host, source string
		if err := rows.Scan(&host, &source); err != nil {
			return nil, fmt.Errorf("pending hosts: %w", err)
		}
		if named[host] || req.chooses(host, source) {
			chosen = append(chosen, host)
		}
		delete(named, host)
	}
	for host := range named {
		return nil, badHosts{fmt.Errorf("%s does not wait for a decision", host)}
	}
	return chosen, rows.Err()
}

// chooses reports whether All, Domain or FoundBy choose the host, which the robot source found.
func (req *DecideRequest) chooses(host, source string) bool {
	if req.Domain == "" && req.FoundBy == "" {
		return req.All
	}
	return (req.Domain == "" || within(withoutPort(host), []string{req.Domain})) && (req.FoundBy == "" || source == req.FoundBy)
}
