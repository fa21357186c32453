package assign

import (
	"context"
	"database/sql"
	"fmt"
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
