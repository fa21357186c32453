package hosts

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sheaf/internal/db"
	"sheaf/manager/assign"
)

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
