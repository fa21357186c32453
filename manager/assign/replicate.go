package assign

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"sheaf/internal/db"
	"sheaf/internal/wire"
)

// ErrReplication says that a host was to be copied and split at once, or among too many robots.
var ErrReplication = fmt.Errorf("a host is either copied to, or split among, 1 to %d robots", wire.MaxShares)

// Replication says how many robots are to have a host (paper 001, 4.1.1 and 6.1). The first of them
// has the host in slot 0, with its group, and may be replaced like the robot of any host. The
// others have slots from 1 on. The shares of n robots are numbered 0 to n-1 in the order of the
// slots. If fewer robots than Parts can be found, they divide the whole host among them. A number
// of 0 leaves the present one.
type Replication struct {
	Copies int // robots that each collect all of the host, to be compared
	Parts  int // number of robots among which its URLs are divided by hash; 1: one robot, until the plan finds the host too large
}

// Valid reports whether both numbers are from 0 to wire.MaxShares and at most one is above 1.
func (r Replication) Valid() bool {
	return r.Copies >= 0 && r.Copies <= wire.MaxShares && r.Parts >= 0 && r.Parts <= wire.MaxShares && (r.Copies < 2 || r.Parts < 2)
}

// SetReplication sets how many robots a host is to have. The robots change at the end of the
// transaction.
func (t *Tx) SetReplication(ctx context.Context, host string, want Replication) error {
	var copies, parts int
	var by string
	err := t.tx.QueryRowContext(ctx, `SELECT copies, parts, parts_by FROM hosts WHERE name = ?`, host).Scan(&copies, &parts, &by)
	if err != nil {
		return db.OrNone(err, fmt.Errorf("%s: %w", host, ErrUnknownHost))
	}
	wasSplit := parts > 1
	if want.Copies > 0 {
		copies = want.Copies
	}
	switch {
	case want.Parts > 1:
		parts, by = want.Parts, "operator"
	case want.Parts == 1 || want.Copies > 1 && by == "plan":
		parts, by = 1, ""
	}
	if copies > 1 && parts > 1 {
		return Invalid{fmt.Errorf("%s: %w", host, ErrReplication)}
	}
	if copies < 2 { // one copy has nothing to be compared with
		for _, table := range []string{"copies", "copy_verdicts"} {
			if _, err := t.Exec(ctx, `DELETE FROM `+table+` WHERE host = ?`, host); err != nil {
				return err
			}
		}
	}
	if wasSplit != (parts > 1) { // the lists of its robots change
		robots, err := RobotsOf(ctx, t, host)
		if err != nil {
			return err
		}
		t.Touch(robots...)
	}
	_, err = t.Exec(ctx, `UPDATE hosts SET copies = ?, parts = ?, parts_by = ?, review = 1 WHERE name = ?`, copies, parts, by, host)
	return err
}

// SplitByPlan sets the number of robots that share each host, as the plan wants it. It skips hosts
// that an operator has split, copied or pinned to a robot.
func (t *Tx) SplitByPlan(ctx context.Context, parts map[string]int) error {
	for host, n := range parts {
		_, err := t.Exec(ctx, `
			UPDATE hosts SET parts = ?, parts_by = CASE WHEN ? > 1 THEN 'plan' ELSE '' END, review = 1
			WHERE name = ? AND copies = 1 AND parts_by <> 'operator' AND parts <> ? AND pinned = ''`, n, n, host, n)
		if err != nil {
			return err
		}
	}
	return nil
}

// review marks a host that is to have several robots. At the end of the transaction, replicate
// gives it the robots that it lacks.
func (t *Tx) review(ctx context.Context, host string) error {
	_, err := t.Exec(ctx, `UPDATE hosts SET review = 1 WHERE name = ? AND (copies > 1 OR parts > 1)`, host)
	return err
}

// holder is a robot that has a host, and its slot.
type holder struct {
	robot string
	slot  int
}

// holdersOfOne returns the robots that have the host, by slot.
func holdersOfOne(ctx context.Context, t *Tx, host string) ([]holder, error) {
	found, err := holdersOf(ctx, t, []string{host})
	return found[host], err
}

// FirstRobot returns the robot that has the host in slot 0, or "". assigned is false if no robot
// has the host in any slot.
func FirstRobot(ctx context.Context, t *Tx, host string) (robot string, assigned bool, err error) {
	held, err := holdersOfOne(ctx, t, host)
	return first(held), len(held) > 0, err
}

// first returns the robot in slot 0, or "".
func first(list []holder) string {
	if len(list) > 0 && list[0].slot == 0 {
		return list[0].robot
	}
	return ""
}

func has(list []holder, robot string) bool {
	return slices.ContainsFunc(list, func(h holder) bool { return h.robot == robot })
}

// replicated is a host marked for review.
type replicated struct {
	host          string
	copies, parts int
	weight        float64 // ms that the median robot takes for the whole host
}

// replicate gives the hosts marked for review the robots that they are to have.
func (t *Tx) replicate(ctx context.Context) error {
	hosts, err := db.List(ctx, t, func(rows *sql.Rows, r *replicated) error {
		return rows.Scan(&r.host, &r.copies, &r.parts, &r.weight)
	}, `
		SELECT name, copies, parts, COALESCE(weight, (SELECT typical FROM plans)) AS ms
		FROM hosts WHERE review = 1 AND waiting = 0 AND state = 'accepted' ORDER BY ms DESC, name`)
	if err != nil || len(hosts) == 0 {
		return err
	}
	robots, err := t.currentLoads(ctx)
	if err != nil {
		return err
	}
	for _, r := range hosts {
		if err := t.replicateHost(ctx, r, robots); err != nil {
			return fmt.Errorf("replicate host %s: %w", r.host, err)
		}
	}
	return nil
}

// replicateHost ends the superfluous copies or shares of a host and gives the missing ones to the
// robots that are expected to finish them first.
func (t *Tx) replicateHost(ctx context.Context, r replicated, robots []*Load) error {
	held, err := holdersOfOne(ctx, t, r.host)
	if err != nil || len(held) == 0 {
		return err
	}
	able := slices.DeleteFunc(slices.Clone(robots), func(l *Load) bool { return r.parts > 1 && !l.Shares })
	isAble := func(robot string) bool {
		return slices.ContainsFunc(able, func(l *Load) bool { return l.Robot == robot })
	}
	want := max(r.copies, r.parts)
	if !isAble(first(held)) {
		want = 1 // the first robot's program would visit the whole host, while the others visit their shares
	}
	before := slices.Clone(held)
	held = slices.DeleteFunc(held, func(h holder) bool { return h.slot > 0 && (h.slot >= want || !isAble(h.robot)) })
	for _, h := range before {
		if has(held, h.robot) {
			continue
		}
		if err := t.end(ctx, r.host, h.robot); err != nil {
			return err
		}
	}
	weight := r.weight / float64(r.parts)
	for slot := 1; slot < want; slot++ {
		if slices.ContainsFunc(held, func(h holder) bool { return h.slot == slot }) {
			continue
		}
		free := slices.DeleteFunc(slices.Clone(able), func(l *Load) bool { return has(held, l.Robot) })
		if len(free) == 0 {
			break
		}
		to := slices.MinFunc(living(free), func(a, b *Load) int { return cmp.Compare(a.MS+weight*a.Slow, b.MS+weight*b.Slow) })
		if err := t.give(ctx, r.host, to.Robot, slot); err != nil {
			return err
		}
		to.MS, to.Hosts = to.MS+weight*to.Slow, to.Hosts+1
		held = append(held, holder{to.Robot, slot})
	}
	if !slices.Equal(before, held) {
		for _, h := range slices.Concat(before, held) {
			t.Touch(h.robot)
		}
	}
	_, err = t.Exec(ctx, `UPDATE hosts SET review = ? WHERE name = ?`, len(held) < max(r.copies, r.parts), r.host)
	return err
}

// give assigns a host to one more robot. That changes the shares of the host's other robots.
func (t *Tx) give(ctx context.Context, host, robot string, slot int) error {
	if err := t.hold(ctx, `a.host = ? AND a.robot <> ?`, host, robot); err != nil {
		return err
	}
	g, err := t.Generation(ctx)
	if err != nil {
		return err
	}
	_, err = t.Exec(ctx, `
		INSERT INTO assignments (host, robot, from_generation, slot) VALUES (?, ?, ?, ?)
		ON CONFLICT (host, robot, from_generation) DO UPDATE SET to_generation = NULL, slot = excluded.slot`, host, robot, g, slot)
	return err
}

// end takes a host from one of its robots.
func (t *Tx) end(ctx context.Context, host, robot string) error {
	return t.take(ctx, `a.host = ? AND a.robot = ?`, host, robot)
}

// MoveReplica gives a host's copy or share from one robot to another. It does nothing if the first
// robot no longer has one, or if the second robot has the host already.
func (t *Tx) MoveReplica(ctx context.Context, host, from, to string) error {
	held, err := holdersOfOne(ctx, t, host)
	if err != nil || has(held, to) {
		return err
	}
	i := slices.IndexFunc(held, func(h holder) bool { return h.robot == from && h.slot > 0 })
	if i < 0 {
		return nil
	}
	if err := t.end(ctx, host, from); err != nil {
		return err
	}
	t.Touch(to)
	return t.give(ctx, host, to, held[i].slot)
}
