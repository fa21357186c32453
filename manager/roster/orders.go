package roster

import (
	"context"
	"fmt"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
)

// Restart orders the robot to drop its list and fetch it anew (P4). It makes and returns a new
// generation, so that the new list is newer than the one the robot has.
func (r *Roster) Restart(ctx context.Context, robot string) (generation int64, err error) {
	err = r.assignments.Change(ctx, func(t *assign.Tx) error {
		if generation, err = t.Generation(ctx); err != nil {
			return err
		}
		n, err := t.Exec(ctx, `UPDATE robots SET restart_generation = ? WHERE name = ? AND secret_hash IS NOT NULL`, generation, robot)
		if err == nil && n == 0 {
			return fmt.Errorf("robot %s: %w", robot, ErrUnknownRobot)
		}
		t.Touch(robot)
		return err
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
