package hosts

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
)

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
	var ended, answered [][]any // rows of host, at, status, pages, bytes, why; rows of host
	var unanswered []string
	for host := range own {
		p := hb.Hosts[host]
		switch {
		case p.State == wire.HostDone:
			ended = append(ended, []any{robot, host, max(now-p.AgoMS, 1), p.Status, p.Pages, p.Bytes, hb.Unanswered[host]})
		case p.Status != 0:
			answered = append(answered, []any{host})
		}
		if _, told := hb.Unanswered[host]; told {
			unanswered = append(unanswered, host)
		}
	}
	slices.Sort(unanswered)
	err = db.Transact(ctx, r.db, nil, func(tx *sql.Tx) error {
		for some := range slices.Chunk(ended, db.RowsAtOnce) {
			_, err := tx.ExecContext(ctx, `INSERT INTO visits (robot, host, at, status, pages, bytes, why) VALUES `+db.Tuples(len(some), len(some[0]))+`
				ON CONFLICT (robot, host) DO UPDATE SET at = excluded.at, status = excluded.status, pages = excluded.pages, bytes = excluded.bytes,
					why = CASE WHEN excluded.status = 0 AND excluded.why = '' THEN visits.why ELSE excluded.why END`, slices.Concat(some...)...)
			if err != nil {
				return err
			}
		}
		for some := range slices.Chunk(answered, db.RowsAtOnce) {
			args := append([]any{robot}, slices.Concat(some...)...)
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
