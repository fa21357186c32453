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

// IntervalRequest sets how hosts are visited, because their owners allow more or ask for less. It
// is the body of POST /v1/admin/hosts/interval. What is left out stays as it is.
type IntervalRequest struct {
	Hosts    []string `json:"hosts"`
	Interval string   `json:"interval,omitempty"` // between two visits to the hosts' addresses, such as 5s; 0s: each robot's own again
	Pages    *int     `json:"pages,omitempty"`    // of one visit, over one connection; 0: each robot's own number again
	Reason   string   `json:"reason"`             // who allows or asks for it
}

// String says what is set for which hosts, for the audit log.
func (q IntervalRequest) String() string {
	var what []string
	if q.Interval != "" {
		what = append(what, "interval "+q.Interval)
	}
	if q.Pages != nil {
		what = append(what, fmt.Sprintf("%d pages a visit", *q.Pages))
	}
	return fmt.Sprintf("%s for %d hosts: %s (%s)", strings.Join(what, " and "), len(q.Hosts), strings.Join(q.Hosts, " "), q.Reason)
}

// check returns the interval in ms, nil if it is to stay, and an error if the request says nothing
// or something that cannot be.
func (q IntervalRequest) check() (ms *int64, err error) {
	if q.Interval != "" {
		d, err := time.ParseDuration(q.Interval)
		if err != nil || d != 0 && (d < wire.LeastInterval || d > wire.MostInterval) {
			return nil, fmt.Errorf("interval %q: want a time from %v to %v, such as 5s, or 0s for each robot's own", q.Interval, wire.LeastInterval, wire.MostInterval)
		}
		n := d.Milliseconds()
		ms = &n
	}
	switch {
	case q.Pages != nil && (*q.Pages < 0 || *q.Pages > wire.MostRunPages):
		return nil, fmt.Errorf("pages %d: want 1 to %d, or 0 for each robot's own number", *q.Pages, wire.MostRunPages)
	case ms == nil && q.Pages == nil:
		return nil, errors.New("interval and pages are missing: give one of them or both")
	case (ms != nil && *ms > 0 || q.Pages != nil && *q.Pages > 0) && strings.TrimSpace(q.Reason) == "":
		return nil, errors.New("reason is missing: say who allows or asks for it")
	case len(q.Hosts) == 0:
		return nil, errors.New("hosts is empty: name the hosts")
	}
	return ms, nil
}

// SetInterval carries the request out. Robots are told with their next list. A host that is not
// known is an error, and nothing is changed.
func (r *Registry) SetInterval(ctx context.Context, q IntervalRequest) error {
	ms, err := q.check()
	if err != nil {
		return assign.Invalid{Err: err}
	}
	return r.assignments.Change(ctx, func(t *assign.Tx) error {
		for _, host := range q.Hosts {
			n, err := t.Exec(ctx, `
				UPDATE hosts SET interval_ms = COALESCE(CAST(? AS BIGINT), interval_ms), run_pages = COALESCE(CAST(? AS BIGINT), run_pages),
					interval_reason = ? WHERE name = ?`, ms, q.Pages, strings.TrimSpace(q.Reason), host)
			if err != nil {
				return err
			}
			if n == 0 {
				return fmt.Errorf("%s: %w", host, assign.ErrUnknownHost)
			}
			if _, err := t.Exec(ctx, `UPDATE hosts SET interval_reason = '' WHERE name = ? AND interval_ms = 0 AND run_pages = 0`, host); err != nil {
				return err
			}
			if err := touchRobotsOf(ctx, t, host); err != nil {
				return err
			}
		}
		return nil
	})
}
