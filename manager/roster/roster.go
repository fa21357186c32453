// Package roster keeps the robots: their admission, their credentials, whether they take part, and
// operators' orders to them.
//
// A robot is a name with credentials. An operator admits the name and passes on a one-time token.
// The robot exchanges the token for a secret and registers the key that it signs its batches with.
// Token and secret are 256 random bits; only their SHA-256 is kept.
//
// A robot takes part while it is subscribed and has not lapsed. Only then does it have hosts.
//
// # Releases
//
// Releases keeps the releases of the robot's program and rolls each out in stages: it is offered
// first to 1 % of the robots, then to 10 %, then to all. The next stage begins by itself when the
// robots of the present stage report that they run the release. The roll-out stops by itself if too
// many robots go back to the release before.
//
// A release is signed by the operators. This package verifies the signature when the release is
// published. Robots do not rely on that: they verify it with the key that they got when they
// joined.
package roster

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/servicekey"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
)

var (
	// ErrUnauthorized says that a robot's name and secret do not belong together.
	ErrUnauthorized = wire.ErrUnauthorized
	// ErrUnknownRobot says that no robot of that name has joined, or that it was revoked.
	ErrUnknownRobot = errors.New("no such robot has joined")
	// ErrNoRobot says that no robot of that name was ever admitted.
	ErrNoRobot = errors.New("no robot of this name was admitted; sheaf robot ls lists them")
	// ErrActive says that a robot cannot be forgotten because it has credentials.
	ErrActive = errors.New("it has joined; sheaf robot revoke takes its credentials away and hands its hosts on, and then it can be removed")
	// ErrToken says that a one-time token is unknown, used or expired.
	ErrToken = errors.New("the token is unknown, used or expired; ask the operator for a new one")
	// ErrRobotExists says that a robot of that name has joined and was not revoked, or that it was
	// revoked together with its published pages.
	ErrRobotExists = errors.New("a robot of this name has joined, or was revoked with what it had published; revoke it before you admit its name anew, or choose another name")
	// ErrRobotName says that a name cannot be a robot's.
	ErrRobotName = errors.New("a robot's name is a DNS label: 1 to 63 lower-case letters, digits and hyphens; not join or import")
)

// Options are a roster's settings. Key and Releases must be set.
type Options struct {
	Key       servicekey.Signer // the service's key; robots get its public half when they join
	FTP       string            // host:port of the FTP drop, which robots are told; empty: there is none
	TokenLife time.Duration     // life of a one-time token; 0: a week
	Releases  *Releases         // of the robots' program
	Log       *slog.Logger      // nil: discards
}

// Roster keeps the robots in the control database. It may be used by many goroutines at once. A
// change is durable when its method returns.
type Roster struct {
	db          *sql.DB
	assignments *assign.Assignments
	opt         Options

	mu        sync.Mutex // guards listening
	listening listening
}

// New returns the robots in d, which internal/db has opened.
func New(d *sql.DB, assignments *assign.Assignments, opt Options) *Roster {
	opt.TokenLife = cmp.Or(opt.TokenLife, 7*24*time.Hour)
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	return &Roster{db: d, assignments: assignments, opt: opt}
}

// newSecret returns 256 random bits in lower-case base32. Base32 fits HTTP Basic and a command
// line, where a leading hyphen would look like a flag.
func newSecret() string {
	b := make([]byte, 32)
	rand.Read(b) // never fails: crypto/rand ends the program instead
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

func hash(s string) []byte {
	h := sha256.Sum256([]byte(s))
	return h[:]
}

// Restart orders the robot to drop its list and fetch it anew (P4). It makes and returns a new
// generation, so that the new list is newer than the one the robot has.
func (r *Roster) Restart(ctx context.Context, robot string) (generation int64, err error) {
	err = r.assignments.Change(ctx, func(t *assign.Tx) error {
		if generation, err = t.Generation(ctx); err != nil {
			return err
		}
		t.Touch(robot)
		return db.Change(ctx, t, fmt.Errorf("robot %s: %w", robot, ErrUnknownRobot),
			`UPDATE robots SET restart_generation = ? WHERE name = ? AND secret_hash IS NOT NULL`, generation, robot)
	})
	return generation, err
}

// RestartDue reports whether the robot is to restart. has is the generation of the robot's list.
// The order is repeated until the robot has a newer list, because an answer may be lost. If the
// robot does not send its generation (has < 0), it gets each order once.
func (r *Roster) RestartDue(ctx context.Context, robot string, has int64) (bool, error) {
	const newer = ` WHERE name = ? AND restart_generation > CASE WHEN ? >= 0 THEN ? ELSE restart_answered END`
	var due bool
	err := r.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM robots`+newer+`)`, robot, has, has).Scan(&due)
	if err == nil && due {
		var n int64
		n, err = db.Exec(ctx, r.db, `UPDATE robots SET restart_answered = restart_generation`+newer, robot, has, has)
		due = n > 0 // else another heartbeat has got it
	}
	if err != nil {
		return false, fmt.Errorf("robot %s: restart: %w", robot, err)
	}
	return due, nil
}

// Pause orders the robot to begin no more pages or, with paused false, to go on.
func (r *Roster) Pause(ctx context.Context, robot string, paused bool) error {
	return r.set(ctx, robot, `UPDATE robots SET paused = ? WHERE name = ? AND secret_hash IS NOT NULL`, paused)
}

// Upgrade orders the robot to look for its release. The order goes out with every heartbeat until
// the robot has looked. The roll-out says which release it gets.
func (r *Roster) Upgrade(ctx context.Context, robot string) error {
	return r.set(ctx, robot, `UPDATE robots SET look = ? WHERE name = ? AND secret_hash IS NOT NULL`, db.Millis(time.Now()))
}

// Looked notes that the robot has asked for its release.
func (r *Roster) Looked(ctx context.Context, robot string) error {
	if _, err := r.db.ExecContext(ctx, `UPDATE robots SET look = 0 WHERE name = ? AND look > 0`, robot); err != nil {
		return fmt.Errorf("robot %s: looked for a release: %w", robot, err)
	}
	return nil
}

// set runs an update of one robot. The query's parameters are value and the robot's name.
func (r *Roster) set(ctx context.Context, robot, query string, value any) error {
	if err := db.Change(ctx, r.db, ErrUnknownRobot, query, value, robot); err != nil {
		return fmt.Errorf("robot %s: %w", robot, err)
	}
	return nil
}

// Directives returns the entity tag of the robot's list now, and the robot's orders, given its
// heartbeat.
func (r *Roster) Directives(ctx context.Context, robot string, hb wire.Heartbeat) (list string, due []wire.Directive, err error) {
	var generation int64
	var paused, look bool
	err = r.db.QueryRowContext(ctx, `SELECT list_generation, paused, CASE WHEN look > 0 THEN 1 ELSE 0 END FROM robots WHERE name = ?`, robot).Scan(&generation, &paused, &look)
	if err != nil {
		return "", nil, err
	}
	restart, err := r.RestartDue(ctx, robot, hb.Generation)
	if err != nil {
		return "", nil, err
	}
	list = assign.ListTag(robot, generation)
	for _, order := range []struct {
		due       bool
		directive wire.Directive
	}{
		{restart, wire.DirectiveRestart},
		{!restart && hb.List != list, wire.DirectiveRebalance},
		{paused && !hb.Held, wire.DirectivePause},
		{!paused && hb.Held, wire.DirectiveResume},
		{look, wire.DirectiveUpgrade},
	} {
		if order.due {
			due = append(due, order.directive)
		}
	}
	return list, due, nil
}
