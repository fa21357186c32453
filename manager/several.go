package manager

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"sheaf/internal/wire"
)

// A host may be given to several robots on purpose (paper 001, 4.1.1): whole, so that
// the copies can be compared (hosts.copies), or, where it is too large for one robot, in
// shares by the hash of the URL (hosts.parts; 6.1). The first of them, slot 0, has it with
// all of its address and moves like any host; the further ones are chosen here, each another robot. Robots
// share the host's interval, so the server sees no more visits than from one.
//
// What shares there are follows from who has the host: its robots in the order of their
// slots have shares 0 to n-1 of n. While there are fewer robots than are wanted, those share all of it.

// ErrSeveral says that a host cannot be copied and split at once, or not so often.
var ErrSeveral = errors.New("a host is copied or split, to between 1 and " + fmt.Sprint(wire.MaxShares) + " robots, and not both")

// Several says how many robots are to have a host; 0 leaves it as it is.
type Several struct {
	Copies int // that collect all of it, to be compared
	Parts  int // that share its URLs; 1: no more, until the plan finds it too large
}

func (s Several) valid() bool {
	return s.Copies >= 0 && s.Copies <= wire.MaxShares && s.Parts >= 0 && s.Parts <= wire.MaxShares && (s.Copies < 2 || s.Parts < 2)
}

// Spread gives known hosts to so many robots each, as far as there are robots.
func (m *Manager) Spread(ctx context.Context, hosts []string, how Several) error {
	if !how.valid() {
		return badHosts{ErrSeveral}
	}
	return m.edit(ctx, func(e *edit) error {
		for _, host := range hosts {
			if err := e.spread(host, how); err != nil {
				return err
			}
		}
		return nil
	})
}

func (e *edit) spread(host string, how Several) error {
	var copies, parts int
	var by string
	err := e.tx.QueryRowContext(e.ctx, `SELECT copies, parts, parts_by FROM hosts WHERE name = ?`, host).Scan(&copies, &parts, &by)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%s: %w", host, ErrUnknownHost)
	}
	if err != nil {
		return err
	}
	if how.Copies > 0 {
		copies = how.Copies
	}
	switch {
	case how.Parts > 1:
		parts, by = how.Parts, "operator"
	case how.Parts == 1 || how.Copies > 1 && by == "plan":
		parts, by = 1, ""
	}
	if copies > 1 && parts > 1 {
		return badHosts{fmt.Errorf("%s: %w", host, ErrSeveral)}
	}
	if copies < 2 { // there is nothing to compare any more
		for _, table := range []string{"copies", "copy_verdicts"} {
			if _, err := e.exec(`DELETE FROM `+table+` WHERE host = ?`, host); err != nil {
				return err
			}
		}
	}
	_, err = e.exec(`UPDATE hosts SET copies = ?, parts = ?, parts_by = ?, review = 1 WHERE name = ?`, copies, parts, by, host)
	return err
}

// splitAs splits hosts as the plan wants it; those that an operator has split or wants copied stay as they are.
func (e *edit) splitAs(parts map[string]int) error {
	for host, n := range parts {
		_, err := e.exec(`
			UPDATE hosts SET parts = ?, parts_by = CASE WHEN ? > 1 THEN 'plan' ELSE '' END, review = 1
			WHERE name = ? AND copies = 1 AND parts_by <> 'operator' AND parts <> ?`, n, n, host, n)
		if err != nil {
			return err
		}
	}
	return nil
}

// holder is a robot that has a host.
type holder struct {
	robot string
	slot  int
}

// holders gives who has the host, by slot.
func (e *edit) holders(host string) ([]holder, error) {
	rows, err := e.tx.QueryContext(e.ctx, `SELECT robot, slot FROM assignments WHERE host = ? AND to_generation IS NULL ORDER BY slot, robot`, host)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []holder
	for rows.Next() {
		var h holder
		if err := rows.Scan(&h.robot, &h.slot); err != nil {
			return nil, err
		}
		list = append(list, h)
	}
	return list, rows.Err()
}

// first gives the robot that has the host in slot 0; "" where none has.
func first(list []holder) string {
	if len(list) > 0 && list[0].slot == 0 {
		return list[0].robot
	}
	return ""
}

func has(list []holder, robot string) bool {
	return slices.ContainsFunc(list, func(h holder) bool { return h.robot == robot })
}

// wanting is a host that is to be with several robots, or no more.
type wanting struct {
	host          string
	copies, parts int
	weight        float64 // ms at the middle robot, of all of it
}

// complete sees to it that hosts marked for review have the robots that they are to have.
func (e *edit) complete() error {
	wants, err := e.wanting()
	if err != nil || len(wants) == 0 {
		return err
	}
	robots, err := e.loads()
	if err != nil {
		return err
	}
	for _, w := range wants {
		if err := e.completeHost(w, robots); err != nil {
			return fmt.Errorf("host %s: its further robots: %w", w.host, err)
		}
	}
	return nil
}

func (e *edit) wanting() ([]wanting, error) {
	rows, err := e.tx.QueryContext(e.ctx, `
		SELECT name, copies, parts, COALESCE(weight, (SELECT typical FROM plans)) AS ms
		FROM hosts WHERE review = 1 AND waiting = 0 AND state = 'accepted' ORDER BY ms DESC, name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []wanting
	for rows.Next() {
		var w wanting
		if err := rows.Scan(&w.host, &w.copies, &w.parts, &w.weight); err != nil {
			return nil, err
		}
		list = append(list, w)
	}
	return list, rows.Err()
}

func (e *edit) completeHost(w wanting, robots []*load) error {
	held, err := e.holders(w.host)
	if err != nil || len(held) == 0 {
		return err
	}
	fit := make([]*load, 0, len(robots))
	for _, r := range robots {
		if w.parts < 2 || r.shares {
			fit = append(fit, r)
		}
	}
	isFit := func(robot string) bool {
		return slices.ContainsFunc(fit, func(r *load) bool { return r.robot == robot })
	}
	want := max(w.copies, w.parts)
	if !isFit(first(held)) {
		want = 1 // its program would visit all of the host, and others their shares
	}
	before := slices.Clone(held)
	held = slices.DeleteFunc(held, func(h holder) bool { return h.slot > 0 && (h.slot >= want || !isFit(h.robot)) })
	for _, h := range before {
		if has(held, h.robot) {
			continue
		}
		if err := e.end(w.host, h.robot); err != nil {
			return err
		}
	}
	weight := w.weight / float64(w.parts)
	for slot := 1; slot < want; slot++ {
		if slices.ContainsFunc(held, func(h holder) bool { return h.slot == slot }) {
			continue
		}
		free := slices.DeleteFunc(slices.Clone(fit), func(r *load) bool { return has(held, r.robot) })
		if len(free) == 0 {
			break
		}
		to := slices.MinFunc(free, func(a, b *load) int { return cmp.Compare(a.ms+weight*a.slow, b.ms+weight*b.slow) })
		if err := e.give(w.host, to.robot, slot); err != nil {
			return err
		}
		to.ms, to.hosts = to.ms+weight*to.slow, to.hosts+1
		held = append(held, holder{to.robot, slot})
	}
	for _, h := range slices.Concat(before, held) {
		e.touched[h.robot] = e.touched[h.robot] || !slices.Equal(before, held)
	}
	_, err = e.exec(`UPDATE hosts SET review = ? WHERE name = ?`, len(held) < max(w.copies, w.parts), w.host)
	return err
}

// give assigns the host to a robot besides those who have it.
func (e *edit) give(host, robot string, slot int) error {
	g, err := e.next()
	if err != nil {
		return err
	}
	_, err = e.exec(`
		INSERT INTO assignments (host, robot, from_generation, slot) VALUES (?, ?, ?, ?)
		ON CONFLICT (host, robot, from_generation) DO UPDATE SET to_generation = NULL, slot = excluded.slot`, host, robot, g, slot)
	return err
}

// end takes the host from one of its robots.
func (e *edit) end(host, robot string) error {
	g, err := e.next()
	if err != nil {
		return err
	}
	e.touched[robot], e.taken = true, true
	_, err = e.exec(`UPDATE assignments SET to_generation = ? WHERE host = ? AND robot = ? AND to_generation IS NULL`, g, host, robot)
	return err
}

// moveFurther gives a host's share or copy from one robot to another that has none of it.
func (e *edit) moveFurther(host, from, to string) error {
	held, err := e.holders(host)
	if err != nil || has(held, to) {
		return err
	}
	i := slices.IndexFunc(held, func(h holder) bool { return h.robot == from && h.slot > 0 })
	if i < 0 {
		return nil // it has changed meanwhile
	}
	if err := e.end(host, from); err != nil {
		return err
	}
	e.touched[to] = true
	return e.give(host, to, held[i].slot)
}

// sharesOf gives the shares that the robot has of hosts that are with several.
func sharesOf(ctx context.Context, tx *sql.Tx, robot string) (map[string]wire.Share, error) {
	rows, err := tx.QueryContext(ctx, `
		SELECT h.name, h.parts, COUNT(*), SUM(CASE WHEN o.slot < a.slot THEN 1 ELSE 0 END)
		FROM hosts h JOIN assignments a ON a.host = h.name AND a.robot = ? AND a.to_generation IS NULL
			JOIN assignments o ON o.host = h.name AND o.to_generation IS NULL
		WHERE h.copies > 1 OR h.parts > 1 GROUP BY h.name, h.parts`, robot)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	shares := map[string]wire.Share{}
	for rows.Next() {
		var host string
		var parts int
		var s wire.Share
		if err := rows.Scan(&host, &parts, &s.Of, &s.Part); err != nil {
			return nil, err
		}
		if s.Of > 1 {
			s.Split = parts > 1
			shares[host] = s
		}
	}
	return shares, rows.Err()
}

// understands notes whether the robot's program works by shares. A change of that changes who can
// have what, and what its list says.
func (m *Manager) understands(ctx context.Context, robot string, shares bool) error {
	var known bool
	if err := m.db.QueryRowContext(ctx, `SELECT shares FROM robots WHERE name = ?`, robot).Scan(&known); err != nil || known == shares {
		return err
	}
	return m.edit(ctx, func(e *edit) error {
		if _, err := e.exec(`UPDATE robots SET shares = ? WHERE name = ?`, shares, robot); err != nil {
			return err
		}
		e.touched[robot] = true
		_, err := e.exec(`UPDATE hosts SET review = 1 WHERE parts > 1`)
		return err
	})
}

// inForm gives the lines as the robot's program understands them.
func inForm(lines []wire.HostLine, shares bool) []wire.HostLine {
	if shares {
		return lines
	}
	lines = slices.DeleteFunc(lines, func(l wire.HostLine) bool { return l.Share.Split && l.Share.Several() })
	for i := range lines {
		lines[i].Share, lines[i].Depth = wire.Share{}, 0
	}
	return lines
}
