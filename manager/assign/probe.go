package assign

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"sheaf/internal/db"
)

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
