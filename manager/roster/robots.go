package roster

import (
	"context"
	"crypto/ed25519"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"sheaf/internal/audit"
	"sheaf/internal/db"
	"sheaf/internal/servicekey"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
)

// seenEvery is the precision with which the time of a robot's last request is kept.
const seenEvery = time.Minute

// Robot is a robot as operators see it.
type Robot struct {
	Name         string    `json:"name"`
	Created      time.Time `json:"created"`
	TokenExpires time.Time `json:"token_expires,omitzero"` // zero: no token is unused
	Joined       time.Time `json:"joined,omitzero"`
	Seen         time.Time `json:"seen,omitzero"` // last request, to the minute
	Revoked      time.Time `json:"revoked,omitzero"`
	Program
	Subscribed bool      `json:"subscribed"`
	Hosts      int64     `json:"hosts"`
	Generation int64     `json:"generation"`      // the generation that last changed its list
	Restart    bool      `json:"restart_pending"` // a restart was ordered, and the robot does not know yet
	Lapsed     time.Time `json:"lapsed,omitzero"` // when its hosts were handed on because of its silence
	Late       time.Time `json:"late,omitzero"`   // time since which its heartbeat is overdue
	Leased     time.Time `json:"leased,omitzero"` // time until which it may visit its hosts; zero: it was sent no list, or its lease has no end
	Dead       string    `json:"dead,omitempty"`  // an operator's reason for saying that it has stopped for good
	Waits      int64     `json:"waits,omitempty"` // number of hosts for which other robots wait until it has stopped visiting them
	Paused     bool      `json:"paused"`
	Troubles   []Trouble `json:"troubles,omitempty"` // what is wrong with it, the gravest first
	Refused    Refusal   `json:"refused,omitzero"`   // of the last day

	silent     time.Time // time since which nothing is heard of it; zero: it is heard of
	keyTrouble string    // why it does not know the service's newest key, and what to do; empty: it knows the key
}

// Refusal says that a robot is turned away, because it has used up its share of something or there
// is no room.
type Refusal struct {
	Why   string    `json:"why"`
	Since time.Time `json:"since"` // the first of a series: each came within an hour of the one before
	At    time.Time `json:"at"`    // the last, to the minute
}

// Program describes the program that a robot runs.
type Program struct {
	Version string    `json:"version,omitempty"`
	Shares  bool      `json:"shares"`           // its program can collect a share of a host's URLs
	Look    time.Time `json:"look,omitzero"`    // when it was ordered to look for its release; zero once it has looked
	Release int64     `json:"release"`          // counter of its release; 0: none, such as a program built by hand
	Behind  int64     `json:"behind,omitempty"` // counter of a newer release that all robots were offered more than a day ago
}

// Admit returns a one-time token for a robot. The name must be new or revoked, or admitted before
// without joining; then the earlier token becomes void.
func (r *Roster) Admit(ctx context.Context, name string) (token string, expires time.Time, err error) {
	if !wire.ValidRobotName(name) || name == "join" || name == wire.ImportRobot { // "join" is a path
		return "", time.Time{}, ErrRobotName
	}
	token = newSecret()
	now := r.assignments.Now()
	expires = now.Add(r.opt.TokenLife).UTC().Truncate(time.Millisecond)
	n, err := db.Exec(ctx, r.db, `
		INSERT INTO robots (name, created, token_hash, token_expires) VALUES (?, ?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET token_hash = excluded.token_hash, token_expires = excluded.token_expires
		WHERE robots.secret_hash IS NULL AND robots.stolen = 0`,
		name, db.Millis(now), hash(token), db.Millis(expires))
	if err != nil {
		return "", time.Time{}, fmt.Errorf("admit robot %s: %w", name, err)
	}
	if n == 0 {
		return "", time.Time{}, ErrRobotExists
	}
	return token, expires, nil
}

// Join exchanges a token for credentials and registers the robot's key. Of two robots that send
// the same token, one joins and the other gets ErrToken.
func (r *Roster) Join(ctx context.Context, req wire.JoinRequest) (wire.JoinResponse, error) {
	releaseKey, err := r.opt.Releases.Key(ctx)
	if err != nil {
		return wire.JoinResponse{}, fmt.Errorf("join: %w", err)
	}
	key, err := r.opt.Key.Signing(ctx)
	if err != nil {
		return wire.JoinResponse{}, fmt.Errorf("join: %w", err)
	}
	secret := newSecret()
	now := db.Millis(r.assignments.Now())
	latest := now + (r.opt.TokenLife + time.Hour).Milliseconds() // a token that expires later is of a clock that was ahead
	var name string
	err = db.Transact(ctx, r.db, nil, func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `
			UPDATE robots SET token_hash = NULL, token_expires = 0, secret_hash = ?, public_key = ?, version = ?, joined = ?, seen = ?, revoked = 0,
				signing = '', service_key = ?
			WHERE token_hash = ? AND token_expires > ? AND token_expires <= ?
			RETURNING name`,
			hash(secret), req.PublicKey, req.Version, now, now, []byte(key.Public()), hash(req.Token), now, latest).Scan(&name)
		if err != nil {
			return err
		}
		audit.Note(ctx, audit.Row{Kind: audit.Robot, Name: name, Object: "robot " + name})
		return audit.Write(ctx, tx)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return wire.JoinResponse{}, ErrToken
	case err != nil:
		return wire.JoinResponse{}, fmt.Errorf("join: %w", err)
	}
	return wire.JoinResponse{
		Robot: name, Secret: secret, ServerKey: key.Public(), KeyNumber: key.Number, FTP: r.opt.FTP, ReleaseKey: releaseKey,
	}, nil
}

// Authenticate returns nil if the secret is the robot's, and ErrUnauthorized if it is not. It
// records that the robot was heard of. A robot that had lapsed takes part again.
func (r *Roster) Authenticate(ctx context.Context, robot, secret string) error {
	var want []byte
	var seen time.Time
	var lapsed int64
	err := r.db.QueryRowContext(ctx, `SELECT secret_hash, seen, lapsed FROM robots WHERE name = ?`, robot).Scan(&want, db.At(&seen), &lapsed)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return ErrUnauthorized
	case err != nil:
		return fmt.Errorf("authenticate robot %s: %w", robot, err)
	case subtle.ConstantTimeCompare(hash(secret), want) != 1: // want is nil if the robot never joined, or was revoked
		return ErrUnauthorized
	}
	if now := r.assignments.Now(); now.Sub(seen) >= seenEvery {
		if _, err := r.db.ExecContext(ctx, `UPDATE robots SET seen = ? WHERE name = ?`, db.Millis(now), robot); err != nil {
			return fmt.Errorf("authenticate robot %s: %w", robot, err)
		}
	}
	if lapsed != 0 {
		if err := r.resume(ctx, robot); err != nil {
			return fmt.Errorf("authenticate robot %s: %w", robot, err)
		}
	}
	return nil
}

// NoteRefusal records that a robot was turned away, and why. It writes to the database at most once
// a minute.
func (r *Roster) NoteRefusal(ctx context.Context, robot, why string) error {
	now := r.assignments.Now()
	before := func(d time.Duration) int64 { return db.Millis(now.Add(-d)) }
	_, err := r.db.ExecContext(ctx, `UPDATE robots SET refused = ?, refused_at = ?,
			refused_since = CASE WHEN refused_at BETWEEN ? AND ? THEN refused_since ELSE ? END
		WHERE name = ? AND refused_at NOT BETWEEN ? AND ?`,
		why, db.Millis(now), before(time.Hour), db.Millis(now), db.Millis(now), robot, before(seenEvery)+1, db.Millis(now))
	if err != nil {
		return fmt.Errorf("robot %s is turned away: %w", robot, err)
	}
	return nil
}

// RobotKey returns the key that the robot signs its manifests with, or ErrUnknownRobot.
func (r *Roster) RobotKey(ctx context.Context, robot string) (ed25519.PublicKey, error) {
	var key []byte
	err := r.db.QueryRowContext(ctx, `SELECT public_key FROM robots WHERE name = ? AND secret_hash IS NOT NULL`, robot).Scan(&key)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, fmt.Errorf("robot %s: %w", robot, ErrUnknownRobot)
	case err != nil:
		return nil, fmt.Errorf("robot %s: key: %w", robot, err)
	}
	return ed25519.PublicKey(key), nil
}

// Revoke takes away the robot's credentials and its unused token, and hands its hosts on. It takes
// effect at the robot's next request. The robot's history stays.
//
// since is the time since which the robot's key may have been in others' hands; zero: it was not.
// Batches that came later are not published. Batches that came before count as if the robot had
// lost its hosts at that time. Nobody gets the name again: what was published under it since then
// is taken down, and that would hit the next robot of the name. Revoke may be repeated; the
// earliest time counts.
func (r *Roster) Revoke(ctx context.Context, robot string, since time.Time) error {
	return r.assignments.Change(ctx, func(t *assign.Tx) error {
		err := db.Change(ctx, t, fmt.Errorf("robot %s: %w", robot, ErrUnknownRobot), `
			UPDATE robots SET secret_hash = NULL, public_key = NULL, token_hash = NULL, token_expires = 0, signing = '', revoked = ?
			WHERE name = ?`, db.Millis(r.assignments.Now()), robot)
		if err != nil {
			return err
		}
		t.Disown(robot)
		if err := t.Leave(ctx, robot); err != nil || since.IsZero() {
			return err
		}
		ms := db.Millis(since)
		if _, err := t.Exec(ctx, `UPDATE robots SET stolen = ? WHERE name = ? AND (stolen = 0 OR stolen > ?)`, ms, robot, ms); err != nil {
			return err
		}
		return t.CutTenures(ctx, robot, since)
	})
}

// Bar is Revoke for a name that the database may lack, because the database is new or was
// restored from a backup.
func (r *Roster) Bar(ctx context.Context, name string, since time.Time) error {
	if _, err := r.db.ExecContext(ctx, `INSERT INTO robots (name, created) VALUES (?, ?) ON CONFLICT DO NOTHING`, name, db.Millis(r.assignments.Now())); err != nil {
		return fmt.Errorf("robot %s: %w", name, err)
	}
	return r.Revoke(ctx, name, since)
}

// StolenSince returns the earliest time that Revoke was given, or the zero time.
func (r *Roster) StolenSince(ctx context.Context, robot string) (since time.Time, err error) {
	err = r.db.QueryRowContext(ctx, `SELECT stolen FROM robots WHERE name = ?`, robot).Scan(db.At(&since))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return since, fmt.Errorf("robot %s: %w", robot, err)
	}
	return since, nil
}

// Forget deletes a robot that has not joined or was revoked, unless Revoke has barred its
// name. Its collected pages stay.
func (r *Roster) Forget(ctx context.Context, robot string) error {
	return db.Transact(ctx, r.db, nil, func(tx *sql.Tx) error {
		var active, stolen bool
		err := tx.QueryRowContext(ctx, `SELECT secret_hash IS NOT NULL, stolen <> 0 FROM robots WHERE name = ?`, robot).Scan(&active, &stolen)
		switch {
		case err != nil:
			return fmt.Errorf("robot %s: %w", robot, db.OrNone(err, ErrNoRobot))
		case active:
			return fmt.Errorf("robot %s: %w", robot, ErrActive)
		case stolen:
			return fmt.Errorf("robot %s: %w", robot, ErrRobotExists)
		}
		for _, table := range []string{"heartbeats", "progress", "release_reports", "release_failures", "robot_sites", "robot_troubles", "robot_series", "robot_addresses", "visits"} {
			if _, err := tx.ExecContext(ctx, `DELETE FROM `+table+` WHERE robot = ?`, robot); err != nil {
				return fmt.Errorf("robot %s: %s: %w", robot, table, err)
			}
		}
		// Another robot of the name must not get the pinned hosts.
		_, err = tx.ExecContext(ctx, `UPDATE hosts SET pinned = '', pin_reason = '' WHERE pinned <> '' AND pinned = ?`, robot)
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM robots WHERE name = ?`, robot)
		}
		return err
	})
}

// Subscribe lets the robot take part. It gets waiting hosts and, if it has none, a share of the
// other robots' hosts.
func (r *Roster) Subscribe(ctx context.Context, robot string) error {
	return r.assignments.Change(ctx, func(t *assign.Tx) error {
		if _, err := t.Exec(ctx, `UPDATE robots SET subscribed = 1 WHERE name = ? AND secret_hash IS NOT NULL`, robot); err != nil {
			return err
		}
		return t.Share(ctx, robot)
	})
}

// Unsubscribe hands on the hosts of a robot, which has stopped visiting them. Its credentials stay
// valid, so that it can send what it has collected and subscribe again.
func (r *Roster) Unsubscribe(ctx context.Context, robot string) error {
	return r.assignments.Change(ctx, func(t *assign.Tx) error {
		return errors.Join(t.Leave(ctx, robot), t.EndHolds(ctx, robot))
	})
}

// Summaries returns all robots by name, but without Hosts and Waits. Unlike Robots, it is quick
// with any number of hosts.
func (r *Roster) Summaries(ctx context.Context) ([]Robot, error) { return r.list(ctx, `0`) }

// Robots returns all robots by name.
func (r *Roster) Robots(ctx context.Context) ([]Robot, error) {
	waits, err := r.waits(ctx)
	if err != nil {
		return nil, fmt.Errorf("robots: %w", err)
	}
	robots, err := r.list(ctx, `(SELECT COUNT(*) FROM assignments a WHERE a.robot = robots.name AND a.to_generation IS NULL)`)
	for i := range robots {
		robots[i].Waits = waits[robots[i].Name]
	}
	return robots, err
}

// list returns all robots by name. hosts is SQL for the number of a robot's hosts.
func (r *Roster) list(ctx context.Context, hosts string) ([]Robot, error) {
	due, err := r.dueRelease(ctx)
	if err != nil {
		return nil, fmt.Errorf("robots: %w", err)
	}
	noted, err := r.noted(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := servicekey.List(ctx, r.db)
	if err != nil {
		return nil, fmt.Errorf("robots: %w", err)
	}
	now := r.assignments.Now()
	robots, err := db.List(ctx, r.db, func(rows *sql.Rows, r *Robot) error {
		var heard assign.Heard
		var known []byte
		var refused Refusal
		err := rows.Scan(append([]any{&r.Name, db.At(&r.Created), db.At(&r.TokenExpires), db.At(&r.Joined), db.At(&r.Revoked),
			&r.Version, &r.Subscribed, &r.Generation, &r.Restart, db.At(&r.Lapsed), &r.Paused, db.At(&r.Look), &r.Shares, &r.Release, &r.Hosts,
			db.At(&r.Leased), &r.Dead, &known, &refused.Why, db.At(&refused.Since), db.At(&refused.At)}, heard.Scan()...)...)
		if now.Sub(refused.At) < 24*time.Hour {
			r.Refused = refused
		}
		r.Seen = heard.Seen
		if r.Subscribed {
			r.Late = heard.Late(now)
			r.silent = heard.Silent(now)
		}
		if r.Release < due && !r.Joined.IsZero() && r.Revoked.IsZero() {
			r.Behind = due
		}
		if !r.Joined.IsZero() && r.Revoked.IsZero() {
			r.keyTrouble = keyTrouble(keys, known)
		}
		r.judge(noted[r.Name])
		return err
	}, `
		SELECT name, created, token_expires, joined, revoked, version, subscribed, list_generation,
			restart_generation > restart_answered, lapsed, paused, look, shares,
			COALESCE((SELECT counter FROM release_reports p WHERE p.robot = robots.name), 0),
			`+hosts+`,
			CASE WHEN leased > ? THEN 0 ELSE leased END, dead,
			service_key, refused, refused_since, refused_at, `+assign.HeardColumns+`
		FROM robots ORDER BY name`, db.Millis(now.Add(wire.MaxLease)))
	if err != nil {
		return nil, fmt.Errorf("robots: %w", err)
	}
	return robots, nil
}

// waits returns, by robot, the number of hosts for which other robots wait until it has stopped
// visiting them.
func (r *Roster) waits(ctx context.Context) (map[string]int64, error) {
	waits := map[string]int64{}
	return waits, db.Each(ctx, r.db, func(rows *sql.Rows) error {
		var robot string
		var hosts int64
		err := rows.Scan(&robot, &hosts)
		name, _, _ := strings.Cut(robot, "!") // behind the "!" stands when its credentials were revoked
		waits[name] += hosts
		return err
	}, `SELECT robot, COUNT(*) FROM holds GROUP BY robot`)
}

// dueRelease returns the counter of the newest release that every robot should run by now, or 0.
func (r *Roster) dueRelease(ctx context.Context) (int64, error) {
	list, err := r.opt.Releases.List(ctx)
	if err != nil {
		return 0, err
	}
	for _, l := range list {
		if l.Percent == 100 && l.Stopped == "" && time.Since(l.Since) > 24*time.Hour {
			return l.Counter, nil
		}
	}
	return 0, nil
}
