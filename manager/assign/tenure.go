package assign

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
)

// A robot's tenure of a host lasts until the robot has surely stopped visiting it and so has
// neither an assignment nor a hold. Until then its batches may contain the host.

// MaxAhead is how far a robot's clock may be ahead of the service's for records to be judged by it.
const MaxAhead = 24 * time.Hour

// HeldUntil returns the time until which the robot may have visited each of the hosts. Hosts that
// it never had are left out; the zero time means that it may still visit the host. Times are by the
// robot's clock: they include by how much it was ahead, as the robot's last heartbeat before the
// end told.
func (a *Assignments) HeldUntil(ctx context.Context, robot string, hosts []string) (map[string]time.Time, error) {
	until := make(map[string]time.Time)
	for some := range slices.Chunk(hosts, db.RowsAtOnce) {
		found, err := db.Map(ctx, a.db, func(rows *sql.Rows, host *string, end *time.Time) error { return rows.Scan(host, db.At(end)) }, `
			SELECT a.host, CASE WHEN MIN(COALESCE(a.to_generation, 0)) = 0
					OR EXISTS (SELECT 1 FROM holds b WHERE b.host = a.host AND b.robot = a.robot) THEN 0 ELSE MAX(a.ended) END
			FROM assignments a WHERE a.robot = ? AND a.host IN `+db.Tuple(len(some))+` GROUP BY a.host, a.robot`,
			append([]any{robot}, db.Args(some)...)...)
		if err != nil {
			return nil, fmt.Errorf("hosts that robot %s has had: %w", robot, err)
		}
		maps.Copy(until, found)
	}
	return until, nil
}

// endTenures ends tenures now or, if that is earlier, after the end of the robot's lease. where is
// an SQL condition on the holds b of these tenures.
func (t *Tx) endTenures(ctx context.Context, where string, args ...any) error {
	now, margin := db.Millis(t.now()), wire.LeaseMargin(t.lease).Milliseconds()
	_, err := t.Exec(ctx, `
		UPDATE assignments AS a SET ended = r.ahead + CASE WHEN b.until > 0 AND b.until < ? THEN b.until + ? ELSE CAST(? AS BIGINT) END
		FROM holds b CROSS JOIN robots r
		WHERE r.name = b.robot AND a.host = b.host AND a.robot = b.robot AND a.to_generation IS NOT NULL AND a.ended = 0 AND `+where,
		append([]any{now - margin, margin, now}, args...)...)
	return err
}

// CutTenures ends the robot's tenures at a time, unless they have ended earlier. Call it for a
// robot that has no host any more.
func (t *Tx) CutTenures(ctx context.Context, robot string, at time.Time) error {
	ms := db.Millis(at)
	_, err := t.Exec(ctx, `UPDATE assignments SET ended = ? WHERE robot = ? AND to_generation IS NOT NULL AND (ended = 0 OR ended > ?)`, ms, robot, ms)
	return err
}
