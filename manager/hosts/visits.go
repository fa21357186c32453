package hosts

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
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

// LastVisit is a robot's report on its last visits to a host. Times are by the service's clock,
// even if the robot's clock is wrong.
type LastVisit struct {
	Robot  string    `json:"robot"`
	At     time.Time `json:"at"`               // of the last visit
	Status int       `json:"status,omitempty"` // HTTP status of the answer; 0: there was none, or it is not known
	Pages  int64     `json:"pages"`            // of the last cycle in which the robot finished the host
	Bytes  int64     `json:"bytes"`            // of the same cycle
	Why    string    `json:"why,omitempty"`    // why the last visit got no answer, such as dns or timeout
}

// NoteVisits stores what a heartbeat says of the robot's last visits: to hosts that it has finished
// in its cycle, and to hosts that give no answer, or answer again. It ignores hosts that the robot
// never had.
func (r *Registry) NoteVisits(ctx context.Context, robot string, hb wire.Heartbeat) error {
	var told []string
	for host, p := range hb.Hosts {
		if p.State == wire.HostDone || p.Status != 0 {
			told = append(told, host)
		}
	}
	own, err := r.assignments.HeldUntil(ctx, robot, slices.AppendSeq(told, maps.Keys(hb.Unanswered)))
	if err != nil || len(own) == 0 {
		return err
	}
	now := db.Millis(time.Now())
	var ended [][]any // rows of robot, host, at, status, pages, bytes, why
	var answered, unanswered []string
	for host := range own {
		p := hb.Hosts[host]
		switch {
		case p.State == wire.HostDone:
			ended = append(ended, []any{robot, host, max(now-p.AgoMS, 1), p.Status, p.Pages, p.Bytes, hb.Unanswered[host]})
		case p.Status != 0:
			answered = append(answered, host)
		}
		if _, told := hb.Unanswered[host]; told {
			unanswered = append(unanswered, host)
		}
	}
	slices.Sort(unanswered)
	err = db.Transact(ctx, r.db, nil, func(tx *sql.Tx) error {
		err := db.Insert(ctx, tx, `INSERT INTO visits (robot, host, at, status, pages, bytes, why)`, ended, `
			ON CONFLICT (robot, host) DO UPDATE SET at = excluded.at, status = excluded.status, pages = excluded.pages, bytes = excluded.bytes,
				why = CASE WHEN excluded.status = 0 AND excluded.why = '' THEN visits.why ELSE excluded.why END`)
		if err != nil {
			return err
		}
		for some := range slices.Chunk(answered, db.RowsAtOnce) {
			args := append([]any{robot}, db.Args(some)...)
			if _, err := tx.ExecContext(ctx, `UPDATE visits SET why = '' WHERE robot = ? AND why <> '' AND host IN `+db.Tuple(len(some)), args...); err != nil {
				return err
			}
		}
		for _, host := range unanswered {
			_, err := tx.ExecContext(ctx, `INSERT INTO visits (robot, host, at, status, pages, bytes, why) VALUES (?, ?, ?, 0, 0, 0, ?)
				ON CONFLICT (robot, host) DO UPDATE SET at = excluded.at, status = CASE WHEN excluded.why = '' THEN visits.status ELSE 0 END, why = excluded.why`,
				robot, host, max(now-hb.Hosts[host].AgoMS, 1), hb.Unanswered[host])
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("last visits of robot %s: %w", robot, err)
	}
	return nil
}

// lastVisits returns the robots' reports on their visits to a host, the latest first.
func lastVisits(ctx context.Context, q db.Queryer, host string) ([]LastVisit, error) {
	return db.List(ctx, q, func(rows *sql.Rows, v *LastVisit) error {
		return rows.Scan(&v.Robot, db.At(&v.At), &v.Status, &v.Pages, &v.Bytes, &v.Why)
	}, `SELECT robot, at, status, pages, bytes, why FROM visits WHERE host = ? ORDER BY at DESC, robot LIMIT ?`, host, shownVisits)
}

// shownVisits is the most reports that lastVisits returns.
const shownVisits = 10

// Host returns one host, or assign.ErrUnknownHost.
func (r *Registry) Host(ctx context.Context, name string) (h Host, err error) {
	list, err := r.Hosts(ctx, Filter{name: name}, "", 1)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%s: %w", name, assign.ErrUnknownHost)
	}
	if err != nil {
		return h, err
	}
	return list[0], nil
}

// SourceWatch is the source of a host that was not collected until a consumer watched it. No robot
// can have this name.
const SourceWatch = "a watch"

// watchedAtOnce limits the hosts that one call of EnterWatched enters.
const watchedAtOnce = 1000

// EnterWatched enters hosts that consumers watch and that are not known yet. The policy decides on
// each host as if a robot had found it. If there are many, the next call enters the rest.
func (r *Registry) EnterWatched(ctx context.Context) (Report, error) {
	lines, err := db.List(ctx, r.db, func(rows *sql.Rows, l *wire.HostLine) error { return rows.Scan(&l.URL) }, `
		SELECT DISTINCT CASE WHEN w.address = '' OR w.body <> '' THEN w.url ELSE w.address END
		FROM watches w WHERE NOT EXISTS (SELECT 1 FROM hosts h WHERE h.name = w.host) LIMIT ?`, watchedAtOnce)
	if err != nil {
		return Report{}, fmt.Errorf("hosts of watches: %w", err)
	}
	lines = slices.DeleteFunc(lines, func(l wire.HostLine) bool {
		_, _, err := wire.NormalizeURL(l.URL)
		return err != nil // the watch is older than a rule for URLs; the others must not wait for it
	})
	if len(lines) == 0 {
		return Report{}, nil
	}
	return r.Discover(ctx, SourceWatch, lines)
}

// Watched reports whether consumers watch a page of every one of the hosts.
func (r *Registry) Watched(ctx context.Context, hosts []string) (bool, error) {
	for some := range slices.Chunk(hosts, db.RowsAtOnce) {
		var n int
		err := r.db.QueryRowContext(ctx, `SELECT COUNT(DISTINCT host) FROM watches WHERE host IN `+db.Tuple(len(some)), db.Args(some)...).Scan(&n)
		if err != nil || n < len(some) {
			return false, err
		}
	}
	return true, nil
}

// Watches returns the pages that consumers watch at the hosts that a robot has now. It does not say
// which consumer. The table belongs to serve/watch.
func (r *Registry) Watches(ctx context.Context, robot string) (wire.WatchList, error) {
	orders, err := db.List(ctx, r.db, func(rows *sql.Rows, o *wire.WatchOrder) error {
		err := rows.Scan(&o.Kind, &o.Host, &o.URL, &o.Address, &o.Body, &o.Media, &o.Once)
		if o.Body == "" {
			o.Address = "" // only a form has an address besides its URL
		}
		return err
	}, `
		SELECT w.kind, w.host, w.url, w.address, w.body, w.media, MAX(CASE WHEN w.once = 1 THEN w.created ELSE 0 END)
		FROM watches w JOIN assignments a ON a.host = w.host AND a.robot = ? AND a.to_generation IS NULL
		WHERE w.saved = 0 GROUP BY w.kind, w.host, w.url, w.address, w.body, w.media
		ORDER BY w.host, w.kind, w.url`, robot)
	return wire.WatchList{Watches: orders}, err
}
