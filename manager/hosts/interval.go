package hosts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sheaf/internal/wire"
	"sheaf/manager/assign"
)

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
			n, err := t.Exec(ctx, `
				UPDATE hosts SET interval_ms = COALESCE(CAST(? AS BIGINT), interval_ms), shortest_ms = COALESCE(CAST(? AS BIGINT), shortest_ms),
					run_pages = COALESCE(CAST(? AS BIGINT), run_pages), interval_reason = ? WHERE name = ?`, ms, shortest, q.Pages, strings.TrimSpace(q.Reason), host)
			if err != nil {
				return err
			}
			if n == 0 {
				return fmt.Errorf("%s: %w", host, assign.ErrUnknownHost)
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
