package hosts

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sheaf/internal/wire"
	"sheaf/manager/assign"
)

// IntervalRequest sets the time between two visits to the addresses of hosts, because their owners
// allow a shorter one or ask for a longer one. It is the body of POST /v1/admin/hosts/interval.
type IntervalRequest struct {
	Hosts    []string `json:"hosts"`
	Interval string   `json:"interval"` // such as 5s; 0s: each robot's own again
	Reason   string   `json:"reason"`   // who allows or asks for it
}

// String says what is set for which hosts, for the audit log.
func (q IntervalRequest) String() string {
	return fmt.Sprintf("interval %s for %d hosts: %s (%s)", q.Interval, len(q.Hosts), strings.Join(q.Hosts, " "), q.Reason)
}

// SetInterval carries the request out. Robots are told with their next list. A host that is not
// known is an error, and nothing is changed.
func (r *Registry) SetInterval(ctx context.Context, q IntervalRequest) error {
	d, err := time.ParseDuration(q.Interval)
	reason := strings.TrimSpace(q.Reason)
	switch {
	case err != nil || d != 0 && (d < wire.LeastInterval || d > wire.MostInterval):
		return assign.Invalid{Err: fmt.Errorf("interval %q: want a time from %v to %v, such as 5s, or 0s for each robot's own", q.Interval, wire.LeastInterval, wire.MostInterval)}
	case d > 0 && reason == "":
		return assign.Invalid{Err: fmt.Errorf("reason is missing: say who allows or asks for the interval")}
	case len(q.Hosts) == 0:
		return assign.Invalid{Err: fmt.Errorf("hosts is empty: name the hosts")}
	case d == 0:
		reason = ""
	}
	return r.assignments.Change(ctx, func(t *assign.Tx) error {
		for _, host := range q.Hosts {
			n, err := t.Exec(ctx, `UPDATE hosts SET interval_ms = ?, interval_reason = ? WHERE name = ?`, d.Milliseconds(), reason, host)
			if err != nil {
				return err
			}
			if n == 0 {
				return fmt.Errorf("%s: %w", host, assign.ErrUnknownHost)
			}
			if err := touchRobotsOf(ctx, t, host); err != nil {
				return err
			}
		}
		return nil
	})
}
