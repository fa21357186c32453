package manager

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
)

var (
	// ErrUnauthorized says that a robot's name and secret do not belong together, or do so no more.
	ErrUnauthorized = wire.ErrUnauthorized
	// ErrUnknownRobot says that there is no such robot, or that it has not joined, or was revoked.
	ErrUnknownRobot = errors.New("no such robot has joined")
	// ErrNoRobot says that no robot of a name was ever admitted.
	ErrNoRobot = errors.New("no robot of this name was admitted; sheaf robot ls lists them")
	// ErrActive says that a robot is not to be forgotten while it may log in.
	ErrActive = errors.New("it has joined; sheaf robot revoke takes its credentials away and hands its hosts on, and then it can be removed")
	// ErrToken says that a one-time token is not one that waits to be used.
	ErrToken = errors.New("the token is unknown, used or expired; ask the operator for a new one")
	// ErrRobotExists says that a robot of that name has joined and was not revoked.
	ErrRobotExists = errors.New("a robot of this name has joined; revoke it before you admit its name anew")
	// ErrRobotName says that a name cannot be a robot's.
	ErrRobotName = errors.New("a robot's name is a DNS label: 1 to 63 lower-case letters, digits and hyphens; not join or import")
)

// seenEvery is how finely a robot's last request is kept.
const seenEvery = time.Minute

// Robot is what operators see of a robot.
type Robot struct {
	Name         string    `json:"name"`
	Created      time.Time `json:"created"`
	TokenExpires time.Time `json:"token_expires,omitzero"` // only while a token waits to be used
	Joined       time.Time `json:"joined,omitzero"`
	Seen         time.Time `json:"seen,omitzero"` // last request, to the minute
	Revoked      time.Time `json:"revoked,omitzero"`
	Version      string    `json:"version,omitempty"`
	Subscribed   bool      `json:"subscribed"`
	Hosts        int64     `json:"hosts"`
	Generation   int64     `json:"generation"`      // of its list
	Restart      bool      `json:"restart_pending"` // asked for and not yet answered
	Lapsed       time.Time `json:"lapsed,omitzero"` // it had been silent for too long then, and its hosts were handed on
	Paused       bool      `json:"paused"`
	Shares       bool      `json:"shares"`           // its program works by shares of hosts, as it last asked for its list
	Look         time.Time `json:"look,omitzero"`    // it was told then to look for its release, and has not looked yet
	Release      int64     `json:"release"`          // counter of the release that it runs; 0: none, such as a program built by hand
	Behind       int64     `json:"behind,omitempty"` // counter of a newer release that every robot has been offered for a day
}

// secret makes 256 random bits in a form that fits HTTP Basic, and a command line,
// where a leading hyphen would make it a flag: base32 in lower case.
func secret() string {
	b := make([]byte, 32)
	rand.Read(b) // never fails: crypto/rand ends the program instead
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

func hash(s string) []byte {
	h := sha256.Sum256([]byte(s))
	return h[:]
}

// Admit makes a one-time token for a robot of that name, which may be new, revoked,
// or admitted before without having joined; an earlier token is void then.
func (m *Manager) Admit(ctx context.Context, name string) (token string, expires time.Time, err error) {
	if !wire.ValidRobotName(name) || name == "join" || name == "import" { // /v1/robots/join is a path; what operators import is import's
		return "", time.Time{}, ErrRobotName
	}
	token = secret()
	now := time.Now()
	expires = now.Add(m.opt.TokenLife).UTC().Truncate(time.Millisecond)
	res, err := m.db.ExecContext(ctx, `
		INSERT INTO robots (name, created, token_hash, token_expires) VALUES (?, ?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET token_hash = excluded.token_hash, token_expires = excluded.token_expires
		WHERE robots.secret_hash IS NULL`,
		name, db.Millis(now), hash(token), db.Millis(expires))
	if err != nil {
		return "", time.Time{}, fmt.Errorf("admit robot %s: %w", name, err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return "", time.Time{}, errors.Join(err, ErrRobotExists)
	}
	return token, expires, nil
}

// Join exchanges a token for credentials and registers the robot's key. Of two that
// come with one token, one is answered and the other gets ErrToken.
func (m *Manager) Join(ctx context.Context, req wire.JoinRequest) (wire.JoinResponse, error) {
	releaseKey, err := m.releases.Key(ctx)
	if err != nil {
		return wire.JoinResponse{}, fmt.Errorf("join: %w", err)
	}
	s := secret()
	now := db.Millis(time.Now())
	var name string
	err = m.db.QueryRowContext(ctx, `
		UPDATE robots SET token_hash = NULL, token_expires = 0, secret_hash = ?, public_key = ?, version = ?, joined = ?, seen = ?, revoked = 0
		WHERE token_hash = ? AND token_expires > ?
		RETURNING name`,
		hash(s), req.PublicKey, req.Version, now, now, hash(req.Token), now).Scan(&name)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return wire.JoinResponse{}, ErrToken
	case err != nil:
		return wire.JoinResponse{}, fmt.Errorf("join: %w", err)
	}
	return wire.JoinResponse{
		Robot: name, Secret: s, ServerKey: m.opt.Key.Public().(ed25519.PublicKey), FTP: m.opt.FTP, ReleaseKey: releaseKey,
	}, nil
}

// Authenticate returns nil where secret is the robot's, and ErrUnauthorized where it is not.
func (m *Manager) Authenticate(ctx context.Context, robot, secret string) error {
	var want []byte
	var seen, lapsed int64
	err := m.db.QueryRowContext(ctx, `SELECT secret_hash, seen, lapsed FROM robots WHERE name = ?`, robot).Scan(&want, &seen, &lapsed)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return ErrUnauthorized
	case err != nil:
		return fmt.Errorf("authenticate robot %s: %w", robot, err)
	case subtle.ConstantTimeCompare(hash(secret), want) != 1: // want is nil for one that never joined, or was revoked
		return ErrUnauthorized
	}
	if now := time.Now(); now.Sub(db.Time(seen)) >= seenEvery {
		if _, err := m.db.ExecContext(ctx, `UPDATE robots SET seen = ? WHERE name = ?`, db.Millis(now), robot); err != nil {
			return fmt.Errorf("authenticate robot %s: %w", robot, err)
		}
	}
	if lapsed != 0 {
		if err := m.heard(ctx, robot); err != nil {
			return fmt.Errorf("authenticate robot %s: %w", robot, err)
		}
	}
	return nil
}

// RobotKey gives the key that the robot signs its manifests with, or ErrUnknownRobot.
func (m *Manager) RobotKey(ctx context.Context, robot string) (ed25519.PublicKey, error) {
	var key []byte
	err := m.db.QueryRowContext(ctx, `SELECT public_key FROM robots WHERE name = ? AND secret_hash IS NOT NULL`, robot).Scan(&key)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, fmt.Errorf("robot %s: %w", robot, ErrUnknownRobot)
	case err != nil:
		return nil, fmt.Errorf("robot %s: key: %w", robot, err)
	}
	return ed25519.PublicKey(key), nil
}

// Revoke takes the robot's credentials, or its unused token, and hands its hosts on.
// It works from the robot's next request. The robot's history stays.
func (m *Manager) Revoke(ctx context.Context, robot string) error {
	return m.edit(ctx, func(e *edit) error {
		res, err := e.exec(`
			UPDATE robots SET secret_hash = NULL, public_key = NULL, token_hash = NULL, token_expires = 0, revoked = ?
			WHERE name = ?`, db.Millis(time.Now()), robot)
		if err != nil {
			return err
		}
		if res == 0 {
			return fmt.Errorf("robot %s: %w", robot, ErrUnknownRobot)
		}
		return e.leave(robot)
	})
}

// Forget takes a robot that has not joined, or was revoked, off the list of robots. What it collected stays.
func (m *Manager) Forget(ctx context.Context, robot string) error {
	return m.transact(ctx, nil, func(tx *sql.Tx) error {
		var active bool
		err := tx.QueryRowContext(ctx, `SELECT secret_hash IS NOT NULL FROM robots WHERE name = ?`, robot).Scan(&active)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("robot %s: %w", robot, ErrNoRobot)
		case err != nil:
			return fmt.Errorf("robot %s: %w", robot, err)
		case active:
			return fmt.Errorf("robot %s: %w", robot, ErrActive)
		}
		for _, table := range []string{"heartbeats", "progress", "release_reports", "release_failures"} {
			if _, err := tx.ExecContext(ctx, `DELETE FROM `+table+` WHERE robot = ?`, robot); err != nil {
				return fmt.Errorf("robot %s: %s: %w", robot, table, err)
			}
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM robots WHERE name = ?`, robot)
		return err
	})
}

// Restart asks the robot to drop its list and fetch it anew (P4). It begins a
// generation, which it returns, so that the robot's list is newer than the one it has.
func (m *Manager) Restart(ctx context.Context, robot string) (generation int64, err error) {
	err = m.edit(ctx, func(e *edit) error {
		if generation, err = e.next(); err != nil {
			return err
		}
		n, err := e.exec(`UPDATE robots SET restart_generation = ? WHERE name = ? AND secret_hash IS NOT NULL`, generation, robot)
		if err == nil && n == 0 {
			return fmt.Errorf("robot %s: %w", robot, ErrUnknownRobot)
		}
		e.touched[robot] = true
		return err
	})
	return generation, err
}

// restartDue reports whether the robot is to restart. One that says which generation
// its list has (has >= 0) is told so until it has a newer one, so that a lost answer is
// repeated; one that does not is told once for each time that an operator asked.
func (m *Manager) restartDue(ctx context.Context, robot string, has int64) (bool, error) {
	res, err := m.db.ExecContext(ctx, `
		UPDATE robots SET restart_answered = restart_generation
		WHERE name = ? AND restart_generation > CASE WHEN ? >= 0 THEN ? ELSE restart_answered END`, robot, has, has)
	if err != nil {
		return false, fmt.Errorf("robot %s: restart: %w", robot, err)
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// Pause tells the robot to begin no further page until it is told otherwise.
func (m *Manager) Pause(ctx context.Context, robot string, paused bool) error {
	value := 0
	if paused {
		value = 1
	}
	return m.set(ctx, robot, `UPDATE robots SET paused = ? WHERE name = ? AND secret_hash IS NOT NULL`, value)
}

// Upgrade tells the robot to look for its release now, with every heartbeat until it has looked.
// Which release that is, the roll-out says.
func (m *Manager) Upgrade(ctx context.Context, robot string) error {
	return m.set(ctx, robot, `UPDATE robots SET look = ? WHERE name = ? AND secret_hash IS NOT NULL`, db.Millis(time.Now()))
}

// looked notes that the robot has asked for its release.
func (m *Manager) looked(ctx context.Context, robot string) error {
	if _, err := m.db.ExecContext(ctx, `UPDATE robots SET look = 0 WHERE name = ? AND look > 0`, robot); err != nil {
		return fmt.Errorf("robot %s: looked for a release: %w", robot, err)
	}
	return nil
}

func (m *Manager) set(ctx context.Context, robot, query string, value any) error {
	res, err := m.db.ExecContext(ctx, query, value, robot)
	if err != nil {
		return fmt.Errorf("robot %s: %w", robot, err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, fmt.Errorf("robot %s: %w", robot, ErrUnknownRobot))
	}
	return nil
}

// Subscribe lets the robot take part; it is given hosts that wait for one, and,
// where it has none, a share of the others'.
func (m *Manager) Subscribe(ctx context.Context, robot string) error {
	return m.edit(ctx, func(e *edit) error {
		if _, err := e.exec(`UPDATE robots SET subscribed = 1 WHERE name = ? AND secret_hash IS NOT NULL`, robot); err != nil {
			return err
		}
		return e.share(robot)
	})
}

// Unsubscribe hands the robot's hosts on. Its credentials stay good, so that it can
// send what it has collected, and subscribe again.
func (m *Manager) Unsubscribe(ctx context.Context, robot string) error {
	return m.edit(ctx, func(e *edit) error { return e.leave(robot) })
}

// Robots gives all robots by name.
func (m *Manager) Robots(ctx context.Context) ([]Robot, error) {
	newest, err := m.releases.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("robots: %w", err)
	}
	var due int64 // the newest release that every robot should run by now
	for _, l := range newest {
		if l.Percent == 100 && l.Stopped == "" && time.Since(l.Since) > 24*time.Hour {
			due = l.Counter
			break
		}
	}
	rows, err := m.db.QueryContext(ctx, `
		SELECT name, created, token_expires, joined, seen, revoked, version, subscribed, list_generation,
			restart_generation > restart_answered, lapsed, paused, look, shares,
			COALESCE((SELECT counter FROM release_reports p WHERE p.robot = robots.name), 0),
			(SELECT COUNT(*) FROM assignments a WHERE a.robot = robots.name AND a.to_generation IS NULL)
		FROM robots ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("robots: %w", err)
	}
	defer rows.Close()
	robots := []Robot{}
	for rows.Next() {
		var r Robot
		var created, expires, joined, seen, revoked, lapsed, look int64
		if err := rows.Scan(&r.Name, &created, &expires, &joined, &seen, &revoked, &r.Version, &r.Subscribed, &r.Generation, &r.Restart, &lapsed, &r.Paused, &look, &r.Shares, &r.Release, &r.Hosts); err != nil {
			return nil, fmt.Errorf("robots: %w", err)
		}
		r.Created, r.TokenExpires, r.Joined, r.Seen, r.Revoked, r.Lapsed, r.Look = db.Time(created), db.Time(expires), db.Time(joined), db.Time(seen), db.Time(revoked), db.Time(lapsed), db.Time(look)
		if r.Release < due && !r.Joined.IsZero() && r.Revoked.IsZero() {
			r.Behind = due
		}
		robots = append(robots, r)
	}
	return robots, rows.Err()
}
