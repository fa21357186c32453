package assign

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
)

// A hold says that a robot has lost a host, or has another share of it now, and may still be
// visiting it as before. While there is a hold, the host and the other hosts of its group wait in
// the lists of all other robots. A hold ends when
//
//   - the robot says that it works by a list made since (Confirm), or takes part no more,
//   - the robot's lease has been over for some time (EndOverdue), or
//   - an operator says that the robot is dead, which ends its lease (ShortenHolds).
//
// So, whatever moves a host, no address is visited by two robots that do not know of each other.

// endless stands for the end of a lease without end, in Unix ms.
const endless = int64(1) << 62

// hold enters a hold for each robot that is about to lose a host. It also enters a hold for each
// other robot that shares the host, because its share changes. where is an SQL condition on the
// assignments a and the hosts h. publish removes the holds of robots that cannot be visiting the
// host.
func (t *Tx) hold(ctx context.Context, where string, args ...any) error {
	g, err := t.Generation(ctx)
	if err != nil {
		return err
	}
	const from = `
		FROM assignments a JOIN hosts h ON h.name = a.host
			JOIN assignments o ON o.host = a.host AND o.to_generation IS NULL AND (o.robot = a.robot OR h.copies > 1 OR h.parts > 1)
		WHERE a.to_generation IS NULL AND `
	robots, err := db.Column[string](ctx, t, `SELECT DISTINCT o.robot`+from+where, args...)
	if err != nil || len(robots) == 0 {
		return err
	}
	t.Touch(robots...)
	for _, r := range robots {
		t.held[r] = true
	}
	_, err = t.Exec(ctx, `
		INSERT INTO holds (host, grp, robot, since, generation) SELECT DISTINCT o.host, h.grp, o.robot, o.from_generation, CAST(? AS BIGINT)`+from+where+`
		ON CONFLICT (host, robot, grp) DO UPDATE SET generation = excluded.generation`, append([]any{g}, args...)...)
	return err
}

// settleHolds makes this transaction's holds last to the end of their robot's lease. It ends the
// holds of robots that cannot be visiting the hosts, and renames those of robots given to Disown.
// Call it after the update of the robots' rows, whose lock keeps leases from being renewed.
func (t *Tx) settleHolds(ctx context.Context) error {
	over := db.Millis(t.now().Add(-wire.LeaseMargin(t.lease)))
	for robot := range t.held {
		_, err := t.Exec(ctx, `
			UPDATE holds SET until = (SELECT leased FROM robots WHERE name = ?) WHERE robot = ? AND generation = ?`, robot, robot, t.generation)
		if err != nil {
			return err
		}
		const where = `b.robot = ? AND b.generation = ? AND (b.until < ? OR b.since > (SELECT given FROM robots WHERE name = b.robot))`
		if err := t.endTenures(ctx, where, robot, t.generation, over); err != nil {
			return err
		}
		if _, err := t.Exec(ctx, `DELETE FROM holds AS b WHERE `+where, robot, t.generation, over); err != nil {
			return err
		}
	}
	for _, robot := range t.disowned {
		if err := t.endTenures(ctx, `b.robot = ?`, robot); err != nil {
			return err
		}
		if _, err := t.Exec(ctx, `UPDATE holds SET robot = ? WHERE robot = ?`, fmt.Sprintf("%s!%d", robot, t.generation), robot); err != nil {
			return err
		}
	}
	return nil
}

// endHolds ends the holds that fulfil where, an SQL condition on holds b. The robots that waited
// for these holds get new lists.
func (t *Tx) endHolds(ctx context.Context, where string, args ...any) error {
	// CROSS JOIN makes SQLite begin with the holds, which are few.
	const waiting = ` CROSS JOIN assignments a WHERE a.host = h.name AND a.to_generation IS NULL AND a.robot <> b.robot AND `
	robots, err := db.Column[string](ctx, t, `
		SELECT a.robot FROM holds b CROSS JOIN hosts h`+waiting+`h.grp = b.grp AND `+where+`
		UNION SELECT a.robot FROM holds b CROSS JOIN hosts h`+waiting+`h.name = b.host AND `+where, append(args, args...)...)
	if err != nil {
		return err
	}
	t.Touch(robots...)
	if err := t.endTenures(ctx, where, args...); err != nil {
		return err
	}
	_, err = t.Exec(ctx, `DELETE FROM holds AS b WHERE `+where, args...)
	return err
}

// holdsOf is the SQL condition for the holds b of a robot; ofRobot returns its arguments. It
// includes holds from before the robot's credentials were revoked; see Disown.
const holdsOf = `(b.robot = ? OR b.robot > ? AND b.robot < ?)`

func ofRobot(robot string) []any { return []any{robot, robot + "!", robot + `"`} } // '"' comes after '!'

// EndHolds ends a robot's holds, because the robot has stopped visiting the hosts that it has lost.
// These include holds from before its credentials were revoked.
func (t *Tx) EndHolds(ctx context.Context, robot string) error {
	delete(t.held, robot)
	return t.endHolds(ctx, holdsOf, ofRobot(robot)...)
}

// ShortenHolds sets the end of a robot's holds to until, in Unix ms, if they would last longer.
// These include holds from before its credentials were revoked.
func (t *Tx) ShortenHolds(ctx context.Context, robot string, until int64) error {
	args := append([]any{until}, ofRobot(robot)...)
	_, err := t.Exec(ctx, `UPDATE holds AS b SET until = ? WHERE `+holdsOf+` AND b.until > ?`, append(args, until)...)
	return err
}

// Disown separates the robot's holds from its name, at the end of the transaction: another machine
// may join under the name. The holds' robot is then NAME!GENERATION.
func (t *Tx) Disown(robot string) { t.disowned = append(t.disowned, robot) }

// Confirm notes that a robot works by its list of a generation. So it has stopped visiting the
// hosts that it lost in that generation or before.
func (a *Assignments) Confirm(ctx context.Context, robot string, generation int64) error {
	if err := a.endHolds(ctx, `b.robot = ? AND b.generation <= ?`, robot, generation); err != nil {
		return fmt.Errorf("robot %s works by generation %d: %w", robot, generation, err)
	}
	return nil
}

// EndOverdue ends the holds of robots whose leases ended longer ago than wire.LeaseMargin.
func (a *Assignments) EndOverdue(ctx context.Context, now time.Time) error {
	if err := a.endHolds(ctx, `b.until < ?`, db.Millis(now.Add(-wire.LeaseMargin(a.lease)))); err != nil {
		return fmt.Errorf("leases that are over: %w", err)
	}
	return nil
}

// endHolds is Tx.endHolds in a transaction of its own. It begins none if there are no such holds.
func (a *Assignments) endHolds(ctx context.Context, where string, args ...any) error {
	var held bool
	err := a.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM holds b WHERE `+where+`)`, args...).Scan(&held)
	if err == nil && held {
		err = a.Change(ctx, func(t *Tx) error { return t.endHolds(ctx, where, args...) })
	}
	return err
}

// SetBack repairs times that were noted while the clock was ahead, after it was set back. By these
// times robots were heard of in the future, and their leases and holds would last too long. SetBack
// shortens each lease and hold to what was left of it when its robot was last heard of. Tenures
// that have ended in the future end now.
func (a *Assignments) SetBack(ctx context.Context, now time.Time) error {
	const clockError, seenEvery = 5 * time.Minute, time.Minute // seenEvery: how precisely robots.seen is kept
	limit, ms := db.Millis(now.Add(clockError)), db.Millis(now)
	var ahead bool
	err := a.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM robots WHERE seen > ?)`, limit).Scan(&ahead)
	if err != nil || !ahead {
		return err
	}
	return a.Change(ctx, func(t *Tx) error {
		const seen = `(SELECT MAX(r.seen) FROM robots r WHERE r.seen > ? AND (holds.robot = r.name OR holds.robot > r.name || '!' AND holds.robot < r.name || '"'))` // see ofRobot
		from := db.Millis(now.Add(seenEvery))
		if _, err := t.Exec(ctx, `UPDATE holds SET until = ? + until - `+seen+` WHERE until < ? AND until > `+seen, from, limit, endless, limit); err != nil {
			return fmt.Errorf("holds of the future: %w", err)
		}
		if _, err := t.Exec(ctx, `UPDATE assignments SET ended = ? WHERE ended > ?`, ms, limit+MaxAhead.Milliseconds()); err != nil {
			return fmt.Errorf("tenures of the future: %w", err)
		}
		_, err := t.Exec(ctx, `UPDATE robots SET leased = CASE WHEN leased > seen AND leased < ? THEN ? + leased - seen ELSE leased END, seen = ? WHERE seen > ?`, endless, from, ms, limit)
		return err
	})
}

// Lease returns how long a robot may go on without the manager; 0: without end.
func (a *Assignments) Lease() time.Duration { return a.lease }

// Renew renews the lease of a robot that works by its list of a generation, or is about to. It
// renews nothing if the list has changed since. Call it before the answer is sent.
func (a *Assignments) Renew(ctx context.Context, robot string, generation int64) (wire.Lease, error) {
	now := a.now()
	var current, given, leased int64
	err := a.db.QueryRowContext(ctx, `SELECT list_generation, given, leased FROM robots WHERE name = ?`, robot).Scan(&current, &given, &leased)
	if err != nil || current != generation {
		return wire.Lease{}, err
	}
	until := endless
	if a.lease > 0 {
		until = db.Millis(now.Add(a.lease))
	}
	// A longer lease from an earlier setting stays, because the robot may not get this answer. A
	// lease without end does not stay.
	const oftenEnough = 20 // parts of a lease
	if sameKind := (leased == endless) == (until == endless); given == generation && sameKind && leased > until-max(a.lease.Milliseconds()/oftenEnough, 1) {
		until = leased
	} else {
		if leased > until && leased < endless {
			until = leased
		}
		n, err := db.Exec(ctx, a.db, `UPDATE robots SET given = ?, leased = ? WHERE name = ? AND list_generation = ?`, generation, until, robot, generation)
		if err != nil || n == 0 {
			return wire.Lease{}, err
		}
	}
	if until == endless {
		return wire.Lease{Renewed: true}, nil
	}
	return wire.Lease{Renewed: true, For: min(time.Duration(until-db.Millis(now))*time.Millisecond, a.lease)}, nil
}

// fewHolds is the number of holds below which waitingFor begins with the holds instead of the
// robot's hosts.
const fewHolds = 200

// waitingFor returns the hosts of a robot's list that it must not visit yet.
func waitingFor(ctx context.Context, tx *sql.Tx, robot string) (map[string]bool, error) {
	var others int
	err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM holds WHERE robot <> ? LIMIT ?) b`, robot, fewHolds).Scan(&others)
	if err != nil || others == 0 {
		return nil, err
	}
	query, args := `
		SELECT a.host FROM assignments a CROSS JOIN hosts h
		WHERE a.robot = ? AND a.to_generation IS NULL AND h.name = a.host AND (
			EXISTS (SELECT 1 FROM holds b WHERE b.grp = h.grp AND b.robot <> a.robot) OR
			EXISTS (SELECT 1 FROM holds b WHERE b.host = h.name AND b.robot <> a.robot))`, []any{robot}
	if others < fewHolds {
		const held = `SELECT h.name FROM (SELECT host, grp FROM holds WHERE robot <> ? LIMIT ?) b CROSS JOIN hosts h CROSS JOIN assignments a
			WHERE a.host = h.name AND a.robot = ? AND a.to_generation IS NULL AND `
		query, args = held+`h.grp = b.grp UNION `+held+`h.name = b.host`, []any{robot, fewHolds, robot, robot, fewHolds, robot}
	}
	return db.Set[string](ctx, tx, query, args...)
}

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

const (
	// ProbeTime is how long a robot has a host's address for itself to measure the host.
	ProbeTime = 15 * time.Minute
	// ProbeWait is how long other robots are kept away from the address before the probe begins. It
	// lets each of them send a heartbeat or two.
	ProbeWait = time.Hour
)

// A probe is a visit to an address that another robot may be visiting. So the probing robot first
// gets a hold of the host: the host and all of its group wait in the lists of the others. The probe
// may begin when no other robot can be visiting the group any more. The hold ends with the robot's
// answer, or after ProbeTime.

// probing is the generation of holds for probes. No list has it, so Confirm never ends them.
const probing = endless

// Unprobed returns an SQL condition on hosts h, with its arguments: no other robot measures a host
// at h's address or waits to do so. If two robots waited, each would wait for the other without
// end.
func Unprobed(robot string) (where string, args []any) {
	return `NOT EXISTS (SELECT 1 FROM holds b WHERE b.grp = h.grp AND b.robot <> ? AND b.generation = ?)`, []any{robot, probing}
}

// HeldForProbe returns an SQL condition on hosts h, with its arguments: the robot measures h, or
// waits to do so.
func HeldForProbe(robot string) (where string, args []any) {
	return `EXISTS (SELECT 1 FROM holds b WHERE b.host = h.name AND b.robot = ? AND b.generation = ?)`, []any{robot, probing}
}

// HoldForProbe keeps all other robots away from a host's address, so that the robot may measure the
// host. Call it again until may is true: then no other robot visits the address for ProbeTime.
// tooLong is true, and the robot has no hold, if the wait took longer than ProbeWait, if the host's
// address changed, or if another robot is to measure there. address is the group's name.
func (a *Assignments) HoldForProbe(ctx context.Context, robot, host string) (may, tooLong bool, address string, err error) {
	now := a.now()
	unprobed, other := Unprobed(robot)
	err = a.Change(ctx, func(t *Tx) error {
		n, err := t.Exec(ctx, `
			INSERT INTO holds (host, grp, robot, since, generation, until)
			SELECT h.name, h.grp, CAST(? AS TEXT), 0, CAST(? AS BIGINT), CAST(? AS BIGINT) FROM hosts h WHERE h.name = ? AND `+unprobed+`
			ON CONFLICT DO NOTHING`,
			append([]any{robot, probing, db.Millis(now.Add(ProbeWait)), host}, other...)...)
		if err != nil || n == 0 {
			return err
		}
		return t.hold(ctx, `h.name = ? AND a.robot <> ?`, host, robot)
	})
	if err != nil {
		return false, false, "", err
	}
	var until int64
	err = a.db.QueryRowContext(ctx, `
		SELECT p.until, h.grp, NOT EXISTS (SELECT 1 FROM holds b WHERE b.grp = h.grp AND b.robot <> p.robot)
			AND NOT EXISTS (SELECT 1 FROM holds b WHERE b.host = h.name AND b.robot <> p.robot)
		FROM hosts h JOIN holds p ON p.robot = ? AND p.host = h.name AND p.grp = h.grp AND p.generation = ?
		WHERE h.name = ?`, robot, probing, host).Scan(&until, &address, &may)
	switch {
	case errors.Is(err, sql.ErrNoRows): // the host's address has changed meanwhile, or another robot measures there
		return false, true, "", a.EndProbes(ctx, robot, []string{host})
	case err != nil:
		return false, false, "", err
	case until <= db.Millis(now):
		return false, true, address, a.EndProbes(ctx, robot, []string{host})
	case may:
		_, err = a.db.ExecContext(ctx, `UPDATE holds SET until = ? WHERE robot = ? AND host = ? AND generation = ?`,
			db.Millis(now.Add(ProbeTime)), robot, host, probing)
	}
	return may, false, address, err
}

// EndProbes ends a robot's holds for probes of the hosts.
func (a *Assignments) EndProbes(ctx context.Context, robot string, hosts []string) error {
	return a.Change(ctx, func(t *Tx) error {
		for _, host := range hosts {
			if err := t.endHolds(ctx, `b.robot = ? AND b.host = ? AND b.generation = ?`, robot, host, probing); err != nil {
				return err
			}
		}
		return nil
	})
}
