package hosts

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
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

// IntervalRequest sets how often hosts are visited, because their owners allow more or ask for
// less. It is the body of POST /v1/admin/hosts/interval. Values that are left out stay as they are.
type IntervalRequest struct {
	Hosts    []string `json:"hosts"`
	Interval string   `json:"interval,omitempty" doc:"time between the end of a visit and the next, such as 5s; 0s: each robot's own"`
	Shortest string   `json:"shortest,omitempty" doc:"how short the interval may get while the server stays quick, such as 2s; 0s: no shorter than it is set"`
	Pages    *int     `json:"pages,omitempty" doc:"pages of a visit, over one connection; 0: each robot's own number"`
	Reason   string   `json:"reason" doc:"who allows or asks for it"`
}

// String describes the request for the audit log.
func (q IntervalRequest) String() string {
	var what []string
	if q.Interval != "" {
		what = append(what, "interval "+q.Interval)
	}
	if q.Shortest != "" {
		what = append(what, "shortest interval "+q.Shortest)
	}
	if q.Pages != nil {
		what = append(what, fmt.Sprintf("%d pages a visit", *q.Pages))
	}
	return fmt.Sprintf("%s for %d hosts: %s (%s)", strings.Join(what, " and "), len(q.Hosts), strings.Join(q.Hosts, " "), q.Reason)
}

// check returns interval and shortest interval in ms, nil if they are to stay. It returns an error
// if the request sets nothing, has an impossible value, or lacks hosts or a reason.
func (q IntervalRequest) check() (ms, shortest *int64, err error) {
	if ms, err = parseInterval("interval", q.Interval); err == nil {
		shortest, err = parseInterval("shortest", q.Shortest)
	}
	isSet := func(n *int64) bool { return n != nil && *n > 0 }
	switch {
	case err != nil:
		return nil, nil, err
	case q.Pages != nil && (*q.Pages < 0 || *q.Pages > wire.MostRunPages):
		return nil, nil, fmt.Errorf("pages %d: want 1 to %d, or 0 for each robot's own number", *q.Pages, wire.MostRunPages)
	case ms == nil && shortest == nil && q.Pages == nil:
		return nil, nil, errors.New("interval, shortest and pages are missing: give at least one of them")
	case isSet(ms) && isSet(shortest) && *shortest > *ms:
		return nil, nil, fmt.Errorf("shortest %q: it is longer than the interval %q", q.Shortest, q.Interval)
	case (isSet(ms) || isSet(shortest) || q.Pages != nil && *q.Pages > 0) && strings.TrimSpace(q.Reason) == "":
		return nil, nil, errors.New("reason is missing: say who allows or asks for it")
	case len(q.Hosts) == 0:
		return nil, nil, errors.New("hosts is empty: name the hosts")
	}
	return ms, shortest, nil
}

// parseInterval returns an interval of the request in ms, or nil if it is not given.
func parseInterval(name, text string) (*int64, error) {
	if text == "" {
		return nil, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d != 0 && (d < wire.LeastInterval || d > wire.MostInterval) {
		return nil, fmt.Errorf("%s %q: want a time from %v to %v, such as 5s, or 0s for each robot's own", name, text, wire.LeastInterval, wire.MostInterval)
	}
	ms := d.Milliseconds()
	return &ms, nil
}

// SetInterval carries the request out. Robots are told with their next list. If a host is not
// known, it returns an error and changes nothing.
func (r *Registry) SetInterval(ctx context.Context, q IntervalRequest) error {
	ms, shortest, err := q.check()
	if err != nil {
		return assign.Invalid{Err: err}
	}
	return r.assignments.Change(ctx, func(t *assign.Tx) error {
		for _, host := range q.Hosts {
			err := db.Change(ctx, t, fmt.Errorf("%s: %w", host, assign.ErrUnknownHost), `
				UPDATE hosts SET interval_ms = COALESCE(CAST(? AS BIGINT), interval_ms), shortest_ms = COALESCE(CAST(? AS BIGINT), shortest_ms),
					run_pages = COALESCE(CAST(? AS BIGINT), run_pages), interval_reason = ? WHERE name = ?`, ms, shortest, q.Pages, strings.TrimSpace(q.Reason), host)
			if err != nil {
				return err
			}
			if _, err := t.Exec(ctx, `
				UPDATE hosts SET interval_reason = '' WHERE name = ? AND interval_ms = 0 AND shortest_ms = 0 AND run_pages = 0`, host); err != nil {
				return err
			}
			if err := touchRobotsOf(ctx, t, host); err != nil {
				return err
			}
		}
		return nil
	})
}

// AssignRequest says which robot is to collect hosts. It is the body of POST
// /v1/admin/hosts/assign.
type AssignRequest struct {
	Hosts  []string `json:"hosts"`
	Robot  string   `json:"robot,omitempty"` // empty: the plan chooses again
	Reason string   `json:"reason,omitempty" doc:"why this robot (required with a robot)"`
}

// String describes the request for the audit log.
func (q AssignRequest) String() string {
	to := "the plan's choice"
	if q.Robot != "" {
		to = "robot " + q.Robot
	}
	return fmt.Sprintf("%d hosts to %s: %s (%s)", len(q.Hosts), to, strings.Join(q.Hosts, " "), q.Reason)
}

// AssignResponse answers POST /v1/admin/hosts/assign.
type AssignResponse struct {
	Hosts []string `json:"hosts"` // the hosts and all others at their addresses, because these go to one robot
}

// Assign gives hosts to a robot, with all other hosts at their addresses, and pins them to it, so
// that levelling leaves them there. Without a robot it removes the pins. If the robot later takes
// no part, other robots collect the hosts. If it takes no part now, or if a host is not collected
// or is for several robots, Assign returns an error and changes nothing.
func (r *Registry) Assign(ctx context.Context, q AssignRequest) (done AssignResponse, err error) {
	switch {
	case len(q.Hosts) == 0:
		return done, assign.Invalid{Err: errors.New("hosts is empty: name the hosts")}
	case q.Robot != "" && strings.TrimSpace(q.Reason) == "":
		return done, assign.Invalid{Err: errors.New("reason is missing: say why this robot is to collect them")}
	}
	err = r.assignments.Change(ctx, func(t *assign.Tx) error {
		done.Hosts = []string{}
		if q.Robot != "" {
			var part bool
			err := t.QueryRowContext(ctx, `SELECT COUNT(*) > 0 FROM robots WHERE name = ? AND subscribed = 1 AND lapsed = 0`, q.Robot).Scan(&part)
			if err != nil {
				return err
			}
			if !part {
				return assign.Invalid{Err: fmt.Errorf("robot %s takes no part now; sheaf robot ls lists the robots", q.Robot)}
			}
		}
		for _, host := range q.Hosts {
			group, err := pinnable(ctx, t, host)
			if err != nil {
				return err
			}
			hosts, err := t.Pin(ctx, group, q.Robot, strings.TrimSpace(q.Reason))
			if err != nil {
				return err
			}
			done.Hosts = append(done.Hosts, hosts...)
		}
		return nil
	})
	return done, err
}

// pinnable returns a host's group, or an error if the host cannot be pinned to a robot.
func pinnable(ctx context.Context, t *assign.Tx, host string) (group string, err error) {
	found, err := db.Column[string](ctx, t, `SELECT grp FROM hosts WHERE name = ?`, host)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", fmt.Errorf("%s: %w", host, assign.ErrUnknownHost)
	}
	var refused, several int
	err = t.QueryRowContext(ctx, `
		SELECT (SELECT COUNT(*) FROM hosts WHERE name = ? AND state <> 'accepted'), (SELECT COUNT(*) FROM hosts WHERE grp = ? AND (copies > 1 OR parts > 1))`,
		host, found[0]).Scan(&refused, &several)
	switch {
	case err != nil:
	case refused > 0:
		err = assign.Invalid{Err: fmt.Errorf("%s is not collected; sheaf host add adds it", host)}
	case several > 0:
		err = assign.Invalid{Err: fmt.Errorf("%s, or another host at its address, is collected by several robots; sheaf host add --copies 1 --parts 1 ends that", host)}
	}
	return found[0], err
}
