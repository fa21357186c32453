package manager

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"sheaf/internal/wire"
)

// leave ends the robot's part.
func (e *edit) leave(robot string) error {
	if _, err := e.exec(`UPDATE robots SET subscribed = 0, lapsed = 0 WHERE name = ?`, robot); err != nil {
		return err
	}
	return e.release(robot)
}

// release takes the robot's hosts from it: they wait for another.
func (e *edit) release(robot string) error {
	n, err := e.exec(`
		UPDATE hosts SET waiting = 1
		WHERE name IN (SELECT host FROM assignments WHERE robot = ? AND to_generation IS NULL AND slot = 0)`, robot)
	if err != nil {
		return err
	}
	several, err := e.exec(`
		UPDATE hosts SET review = 1 WHERE (copies > 1 OR parts > 1)
		AND name IN (SELECT host FROM assignments WHERE robot = ? AND to_generation IS NULL)`, robot)
	if err != nil || n+several == 0 {
		return err
	}
	if several > 0 { // the others' shares are larger now
		others, err := column[string](e.ctx, e.tx, `
			SELECT DISTINCT o.robot FROM hosts h JOIN assignments a ON a.host = h.name AND a.robot = ? AND a.to_generation IS NULL
				JOIN assignments o ON o.host = h.name AND o.to_generation IS NULL
			WHERE h.copies > 1 OR h.parts > 1`, robot)
		if err != nil {
			return err
		}
		for _, o := range others {
			e.touched[o] = true
		}
	}
	g, err := e.next()
	if err != nil {
		return err
	}
	e.touched[robot], e.taken = true, true
	_, err = e.exec(`UPDATE assignments SET to_generation = ? WHERE robot = ? AND to_generation IS NULL`, g, robot)
	return err
}

// take ends every assignment of the host. It does not make the host wait.
func (e *edit) take(host string) error {
	robots, err := e.robotsOf(host)
	if err != nil || len(robots) == 0 {
		return err
	}
	g, err := e.next()
	if err != nil {
		return err
	}
	for _, r := range robots {
		e.touched[r] = true
	}
	e.taken = true
	if _, err = e.exec(`UPDATE assignments SET to_generation = ? WHERE host = ? AND to_generation IS NULL`, g, host); err != nil {
		return err
	}
	_, err = e.exec(`UPDATE hosts SET review = 1 WHERE name = ? AND (copies > 1 OR parts > 1)`, host)
	return err
}

func (e *edit) robotsOf(host string) ([]string, error) {
	return column[string](e.ctx, e.tx, `SELECT robot FROM assignments WHERE host = ? AND to_generation IS NULL ORDER BY robot`, host)
}

// ownerOf gives the robot that has hosts of group g.grp, in slot 0; NULL where none has. It is written so that a
// database that knows nothing of its tables' rows, as in an edit that has just entered them, looks at the
// group's hosts only: as a join, PostgreSQL would go through all robots' hosts for each group.
const ownerOf = `
	(SELECT MIN(o.robot) FROM (
		SELECT (SELECT MIN(a.robot) FROM assignments a WHERE a.host = h.name AND a.to_generation IS NULL AND a.slot = 0) AS robot
		FROM hosts h WHERE h.grp = g.grp) o)`

// owner gives the robot that has the group's hosts, in slot 0; "" where none has.
func (e *edit) owner(group string) (robot string, err error) {
	const query = `SELECT COALESCE(` + ownerOf + `, '') FROM (SELECT CAST(? AS TEXT) AS grp) g`
	stmt, err := e.prepared(query)
	if err != nil {
		return "", err
	}
	if stmt != nil {
		err = stmt.QueryRowContext(e.ctx, group).Scan(&robot)
	} else {
		err = e.tx.QueryRowContext(e.ctx, query, group).Scan(&robot)
	}
	return robot, err
}

// settle gives each group of waiting hosts to the robot that has hosts of that group
// already, else to the one that is thought to be done with it first. Costly groups go
// first, which leaves the others to level with. Without robots they go on waiting.
func (e *edit) settle() error {
	groups, err := e.waiting()
	if err != nil || len(groups) == 0 {
		return err
	}
	robots, err := e.loads()
	if err != nil || len(robots) == 0 {
		return err
	}
	g, err := e.next()
	if err != nil {
		return err
	}
	var given [][]any // group, robot
	for _, group := range groups {
		to := slices.MinFunc(robots, func(a, b *load) int { return cmp.Compare(a.with(group), b.with(group)) })
		if i := slices.IndexFunc(robots, func(r *load) bool { return r.robot == group.owner }); i >= 0 {
			to = robots[i]
		}
		if group.several > 0 { // what it had as a further robot it has as the first one now
			e.taken = true
			if _, err := e.exec(`
				UPDATE assignments SET to_generation = ? WHERE robot = ? AND to_generation IS NULL
				AND host IN (SELECT name FROM hosts WHERE waiting = 1 AND grp = ?)`, g, to.robot, group.name); err != nil {
				return err
			}
			if _, err := e.exec(`UPDATE hosts SET review = 1 WHERE waiting = 1 AND grp = ? AND (copies > 1 OR parts > 1)`, group.name); err != nil {
				return err
			}
		}
		given = append(given, []any{group.name, to.robot})
		to.ms = to.with(group)
		to.hosts += group.hosts
		e.touched[to.robot] = true
	}
	for some := range slices.Chunk(given, rowsAtOnce) {
		if _, err := e.exec(`
			WITH given (grp, robot) AS (VALUES `+tuples(len(some), 2)+`)
			INSERT INTO assignments (host, robot, from_generation)
			SELECT h.name, t.robot, CAST(? AS BIGINT) FROM given t CROSS JOIN hosts h WHERE h.waiting = 1 AND h.grp = t.grp
			ON CONFLICT (host, robot, from_generation) DO UPDATE SET to_generation = NULL, slot = 0`, append(slices.Concat(some...), g)...); err != nil {
			return err
		}
	}
	_, err = e.exec(`UPDATE hosts SET waiting = 0 WHERE waiting = 1`)
	return err
}

// group is hosts that go to one robot. weight is the time in ms that their pages take at
// the middle robot, measured or, of hosts that nobody has measured, thought.
type group struct {
	name    string
	hosts   int64
	weight  float64
	several int64  // hosts that are to have further robots
	owner   string // the robot that has hosts of it already, in slot 0; "": none
}

func (e *edit) waiting() ([]group, error) {
	rows, err := e.tx.QueryContext(e.ctx, `
		SELECT g.*, COALESCE(`+ownerOf+`, '') FROM (
			SELECT grp, COUNT(*), SUM(COALESCE(weight, (SELECT typical FROM plans)) / parts) AS ms, SUM(CASE WHEN copies > 1 OR parts > 1 THEN 1 ELSE 0 END)
			FROM hosts WHERE waiting = 1 GROUP BY grp) g
		ORDER BY g.ms DESC, g.grp`)
	if err != nil {
		return nil, err
	}
	return scanGroups(rows)
}

func scanGroups(rows *sql.Rows) ([]group, error) {
	defer rows.Close()
	var groups []group
	for rows.Next() {
		var g group
		if err := rows.Scan(&g.name, &g.hosts, &g.weight, &g.several, &g.owner); err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	return groups, rows.Err()
}

// List gives the robot's list as it is now, with its generation, in the order of host and URL.
func (m *Manager) List(ctx context.Context, robot string) (generation int64, lines []wire.HostLine, err error) {
	err = m.transact(ctx, &sql.TxOptions{ReadOnly: true}, func(tx *sql.Tx) error {
		if generation, err = listGeneration(ctx, tx, robot); err != nil {
			return err
		}
		shares, err := sharesOf(ctx, tx, robot)
		if err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, `
			SELECT a.host, s.url, s.referer, s.depth FROM assignments a JOIN seeds s ON s.host = a.host
			WHERE a.robot = ? AND a.to_generation IS NULL ORDER BY a.host, s.url`, robot)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var host string
			var l wire.HostLine
			if err := rows.Scan(&host, &l.URL, &l.Referer, &l.Depth); err != nil {
				return err
			}
			l.Share = shares[host]
			lines = append(lines, l)
		}
		return rows.Err()
	})
	if err != nil {
		return 0, nil, fmt.Errorf("list of robot %s: %w", robot, err)
	}
	return generation, lines, nil
}

func listGeneration(ctx context.Context, q queryer, robot string) (g int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT list_generation FROM robots WHERE name = ?`, robot).Scan(&g)
	return g, err
}

// CurrentGeneration gives the number of the assignment that holds now.
func (m *Manager) CurrentGeneration(ctx context.Context) (n int64, err error) {
	err = m.db.QueryRowContext(ctx, `SELECT number FROM generation`).Scan(&n)
	return n, err
}

// NotAssigned gives those of hosts that the robot did not have in that generation. A
// generation that is yet to come had nothing.
func (m *Manager) NotAssigned(ctx context.Context, robot string, generation int64, hosts []string) (missing []string, err error) {
	err = m.transact(ctx, &sql.TxOptions{ReadOnly: true}, func(tx *sql.Tx) error {
		var latest int64
		if err := tx.QueryRowContext(ctx, `SELECT number FROM generation`).Scan(&latest); err != nil {
			return err
		}
		if generation > latest {
			missing = slices.Clone(hosts)
			return nil
		}
		had, err := tx.PrepareContext(ctx, `
			SELECT EXISTS (SELECT 1 FROM assignments
			WHERE host = ? AND robot = ? AND from_generation <= ? AND (to_generation IS NULL OR to_generation > ?))`)
		if err != nil {
			return err
		}
		defer had.Close()
		for _, h := range hosts {
			var ok bool
			if err := had.QueryRowContext(ctx, h, robot, generation, generation).Scan(&ok); err != nil {
				return err
			}
			if !ok {
				missing = append(missing, h)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("hosts of robot %s in generation %d: %w", robot, generation, err)
	}
	return missing, nil
}
