package roster

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
)

// Limits for the kept addresses of robots.
const (
	// AddressesKept is how long a robot's address is kept after its last heartbeat.
	AddressesKept = 90 * 24 * time.Hour

	longSilence   = 20 * time.Minute // between two heartbeats, beyond which the robot may have stopped meanwhile
	nearby        = 5 * time.Minute  // by which a site's clock may differ, and a heartbeat be late
	mostAddresses = 2000             // rows of a robot
)

// NoteAddress notes from which address a heartbeat came, if the robot visits hosts or has stopped
// since its last heartbeat. An idle robot now and then visits pages that consumers watch. The time
// is kept with the precision of seenEvery.
func (r *Roster) NoteAddress(ctx context.Context, robot string, from netip.Addr, hb wire.Heartbeat, now time.Time) error {
	visits := hb.Phase == wire.PhaseCollecting || hb.Phase == wire.PhaseIdle
	if !from.IsValid() {
		return nil
	}
	at, address := db.Millis(now), from.String()
	const current = `robot = ? AND address = ? AND last >= ? AND last <= ? AND (visits = 1 OR ? = 1)`
	of := []any{robot, address, db.Millis(now.Add(-longSilence)), at, visits}
	var last time.Time
	var visited bool
	err := r.db.QueryRowContext(ctx, `SELECT last, visits FROM robot_addresses WHERE `+current+` ORDER BY last DESC LIMIT 1`, of...).Scan(db.At(&last), &visited)
	unknown := errors.Is(err, sql.ErrNoRows)
	if err != nil && !unknown || unknown && !visits || !unknown && visited == visits && now.Sub(last) < seenEvery {
		return wrapped(robot, db.OrNone(err, nil)) // nothing new, and a write would wait for the disk
	}
	n, err := db.Exec(ctx, r.db, `UPDATE robot_addresses SET last = ?, visits = ? WHERE `+current, append([]any{at, visits}, of...)...)
	if err != nil || n > 0 || !visits {
		return wrapped(robot, err)
	}
	every := min(time.Duration(hb.EveryMS)*time.Millisecond, longSilence) // it may have begun just after the last one
	if _, err = r.db.ExecContext(ctx, `INSERT INTO robot_addresses (robot, address, began, last, visits) VALUES (?, ?, ?, ?, 1) ON CONFLICT DO NOTHING`,
		robot, address, db.Millis(now.Add(-every)), at); err != nil {
		return wrapped(robot, err)
	}
	_, err = r.db.ExecContext(ctx, `DELETE FROM robot_addresses WHERE last < ?
		OR robot = ? AND began < (SELECT a.began FROM robot_addresses a WHERE a.robot = ? ORDER BY a.began DESC LIMIT 1 OFFSET ?)`,
		db.Millis(now.Add(-AddressesKept)), robot, robot, mostAddresses-1)
	return wrapped(robot, err)
}

func wrapped(robot string, err error) error {
	if err != nil {
		return fmt.Errorf("robot %s: address: %w", robot, err)
	}
	return nil
}

// VisitedFrom reports whether a robot visited hosts from an address at a time, give or take a few
// minutes.
func (r *Roster) VisitedFrom(ctx context.Context, from netip.Addr, at time.Time) (bool, error) {
	var n int
	err := r.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM robot_addresses WHERE address = ? AND began <= ? AND last >= ? LIMIT 1) found`,
		from.String(), db.Millis(at.Add(nearby)), db.Millis(at.Add(-nearby-seenEvery))).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("visits from an address: %w", err)
	}
	return n > 0, nil
}

// Working returns up to limit robots that are subscribed, by name. It sets only their names and
// versions.
func (r *Roster) Working(ctx context.Context, limit int) ([]Robot, error) {
	list, err := db.List(ctx, r.db, func(rows *sql.Rows, r *Robot) error { return rows.Scan(&r.Name, &r.Version) },
		`SELECT name, version FROM robots WHERE subscribed = 1 AND secret_hash IS NOT NULL ORDER BY name LIMIT ?`, limit)
	if err != nil {
		return nil, fmt.Errorf("robots: %w", err)
	}
	return list, nil
}
