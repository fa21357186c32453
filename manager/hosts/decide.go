package hosts

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/manager/assign"
)

// DecideRequest accepts or refuses Pending hosts that robots found. It is the body of POST
// /v1/admin/hosts/decide. It applies to the named hosts, and to all pending hosts that match
// Domain, FoundBy and Part, as far as these are given. If none of the three is given, All selects
// every pending host.
type DecideRequest struct {
	State   State    `json:"state"` // Accepted or Refused
	Hosts   []string `json:"hosts,omitempty"`
	All     bool     `json:"all,omitempty" doc:"all hosts that wait"`
	Domain  string   `json:"domain,omitempty" doc:"the hosts of this domain, such as ac.jp"`
	FoundBy string   `json:"found_by,omitempty" doc:"the hosts that this robot found"`
	Part    string   `json:"part,omitempty" doc:"the hosts with this in their names"`
	Most    int      `json:"most,omitempty"` // if more hosts match, nothing is decided; 0: no limit
}

// String describes the decision and its hosts for the audit log.
func (d DecideRequest) String() string {
	text := map[State]string{Accepted: "accept", Refused: "refuse"}[d.State]
	if d.All {
		text += " all hosts"
	}
	if d.Domain != "" {
		text += " hosts of " + d.Domain
	}
	if d.FoundBy != "" {
		text += " hosts found by " + d.FoundBy
	}
	if d.Part != "" {
		text += " hosts with " + d.Part + " in their names"
	}
	if len(d.Hosts) > 0 {
		text += fmt.Sprintf(" %d hosts: %s", len(d.Hosts), strings.Join(d.Hosts, " "))
	}
	return text
}

// Decide carries a decision out and returns how many hosts it changed. If a named host is not
// pending, it returns an error and changes nothing.
func (r *Registry) Decide(ctx context.Context, d DecideRequest) (int, error) {
	if d.State != Accepted && d.State != Refused {
		return 0, assign.Invalid{Err: fmt.Errorf("state %q is neither %s nor %s", d.State, Accepted, Refused)}
	}
	chosen, err := r.chosen(ctx, d)
	if err != nil {
		return 0, err
	}
	if d.Most > 0 && len(chosen) > d.Most {
		return 0, assign.Invalid{Err: fmt.Errorf("%d hosts match now, more than the %d that were shown; look at them first", len(chosen), d.Most)}
	}
	var at map[string]addresses
	if d.State == Accepted {
		at = r.resolve(ctx, chosen) // before a transaction is open
	}
	decided := 0
	err = r.assignments.Change(ctx, func(t *assign.Tx) error {
		decided = 0
		for _, host := range chosen {
			n, err := t.Exec(ctx, `UPDATE hosts SET state = ?, waiting = ? WHERE name = ? AND state = ?`, d.State, d.State == Accepted, host, Pending)
			if err != nil {
				return err
			}
			decided += int(n)
			if n > 0 && len(at[host]) > 0 {
				if err := setAddresses(ctx, t, host, at[host], db.Millis(time.Now())); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return decided, err
}

// chosen returns the pending hosts that a decision applies to.
func (r *Registry) chosen(ctx context.Context, d DecideRequest) ([]string, error) {
	named := make(map[string]bool, len(d.Hosts))
	for _, host := range d.Hosts {
		named[host] = true
	}
	var chosen []string
	err := db.Each(ctx, r.db, func(rows *sql.Rows) error {
		var host, source string
		if err := rows.Scan(&host, &source); err != nil {
			return err
		}
		if named[host] || d.chooses(host, source) {
			chosen = append(chosen, host)
		}
		delete(named, host)
		return nil
	}, `SELECT name, source FROM hosts WHERE state = ? ORDER BY name`, Pending)
	if err != nil {
		return nil, fmt.Errorf("pending hosts: %w", err)
	}
	for host := range named {
		return nil, assign.Invalid{Err: fmt.Errorf("%s is not pending; sheaf host ls --state pending lists the hosts that are", host)}
	}
	return chosen, nil
}

// chooses reports whether All, or Domain, FoundBy and Part, select a host that the robot source
// found.
func (d *DecideRequest) chooses(host, source string) bool {
	if d.Domain == "" && d.FoundBy == "" && d.Part == "" {
		return d.All
	}
	return (d.Domain == "" || within(withoutPort(host), []string{d.Domain})) && (d.FoundBy == "" || source == d.FoundBy) && strings.Contains(host, strings.ToLower(d.Part))
}
