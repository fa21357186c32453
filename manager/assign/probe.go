package assign

import (
	"context"
	"time"

	"sheaf/internal/db"
)

// ProbeTime is for how long a robot has the address of a host for itself, to measure the host.
const ProbeTime = 15 * time.Minute

// A probe is a visit to an address that another robot may be visiting. So the robot gets a hold of the
// host first: the host and all of its group wait in the lists of the others. It may begin when none of
// them can be visiting the group any more. The hold ends with the robot's answer, or after its time.

// probing is the generation of a hold that is a probe's: no list confirms it.
const probing = endless

// HoldForProbe has all other robots leave the address of a host alone for ProbeTime, so that the robot
// may measure the host. It may be repeated. until is when the time is over, in Unix ms; 0: another may
// still be visiting the address. address is the group's name.
func (a *Assignments) HoldForProbe(ctx context.Context, robot, host string) (until int64, address string, err error) {
	err = a.Change(ctx, func(t *Tx) error {
		n, err := t.Exec(ctx, `
			INSERT INTO holds (host, grp, robot, since, generation, until)
			SELECT h.name, h.grp, CAST(? AS TEXT), 0, CAST(? AS BIGINT), CAST(? AS BIGINT) FROM hosts h WHERE h.name = ? ON CONFLICT DO NOTHING`,
			robot, probing, db.Millis(time.Now().Add(ProbeTime)), host)
		if err != nil || n == 0 {
			return err
		}
		return t.hold(ctx, `h.name = ? AND a.robot <> ?`, host, robot)
	})
	if err != nil {
		return 0, "", err
	}
	err = a.db.QueryRowContext(ctx, `
		SELECT COALESCE((
			SELECT p.until FROM holds p WHERE p.robot = ? AND p.host = h.name AND p.grp = h.grp AND p.generation = ?
				AND NOT EXISTS (SELECT 1 FROM holds b WHERE b.grp = h.grp AND b.robot <> p.robot)
				AND NOT EXISTS (SELECT 1 FROM holds b WHERE b.host = h.name AND b.robot <> p.robot)), 0), h.grp
		FROM hosts h WHERE h.name = ?`, robot, probing, host).Scan(&until, &address)
	return until, address, err
}

// EndProbes ends a robot's holds for probes of hosts.
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
