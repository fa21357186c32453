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

// edit is one transaction on hosts and assignments. However many changes it holds,
// they make one generation, and none where nothing changes.
type edit struct {
	ctx        context.Context
	tx         *sql.Tx
	generation int64           // 0 until the first change
	touched    map[string]bool // robots whose list is another after this edit

	tally  *tally // what robots have to do, as others last found it, or once summed is set this edit; nil: not known
	summed bool
	taken  bool // something was taken from a robot, which tally does not know

	times map[string]int // that a statement was executed
	again map[string]*sql.Stmt
}

// edit runs f, gives waiting hosts to robots, notes whose lists have changed, and commits.
func (m *Manager) edit(ctx context.Context, f func(*edit) error) error {
	var e *edit
	err := m.transact(ctx, nil, func(tx *sql.Tx) error {
		e = &edit{ctx: ctx, tx: tx, touched: map[string]bool{}, tally: m.tally.Load(), times: map[string]int{}, again: map[string]*sql.Stmt{}}
		if err := f(e); err != nil {
			return err
		}
		if err := errors.Join(e.settle(), e.complete()); err != nil {
			return fmt.Errorf("assign hosts: %w", err)
		}
		return e.publish()
	})
	if err == nil {
		m.tally.Store(e.outcome())
	}
	return err
}

func (e *edit) exec(query string, args ...any) (int64, error) {
	stmt, err := e.prepared(query)
	if err != nil {
		return 0, err
	}
	var res sql.Result
	if stmt != nil {
		res, err = stmt.ExecContext(e.ctx, args...)
	} else {
		res, err = e.tx.ExecContext(e.ctx, query, args...)
	}
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// prepared gives a statement that is executed for the second time or oftener; nil for the first time. An edit may
// execute the same for each of a hundred thousand hosts. It ends with the transaction.
func (e *edit) prepared(query string) (stmt *sql.Stmt, err error) {
	if e.times[query]++; e.times[query] < 2 {
		return nil, nil
	}
	if stmt = e.again[query]; stmt == nil {
		if stmt, err = e.tx.PrepareContext(e.ctx, query); err != nil {
			return nil, err
		}
		e.again[query] = stmt
	}
	return stmt, nil
}

// next gives the number of the generation that this edit makes.
func (e *edit) next() (int64, error) {
	if e.generation != 0 {
		return e.generation, nil
	}
	err := e.tx.QueryRowContext(e.ctx, `UPDATE generation SET number = number + 1 RETURNING number`).Scan(&e.generation)
	return e.generation, err
}

// publish stamps the changed lists with the generation.
func (e *edit) publish() error {
	if len(e.touched) == 0 {
		return nil
	}
	g, err := e.next()
	if err != nil {
		return err
	}
	for robot := range e.touched {
		if _, err := e.exec(`UPDATE robots SET list_generation = ? WHERE name = ?`, g, robot); err != nil {
			return err
		}
	}
	return nil
}

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

// owner gives the robot that has the group's hosts, in slot 0; "" where none has.
func (e *edit) owner(group string) (string, error) {
	const query = `
		SELECT a.robot FROM hosts h JOIN assignments a ON a.host = h.name AND a.to_generation IS NULL AND a.slot = 0
		WHERE h.grp = ? ORDER BY a.robot LIMIT 1`
	stmt, err := e.prepared(query)
	if err != nil {
		return "", err
	}
	var row *sql.Row
	if stmt != nil {
		row = stmt.QueryRowContext(e.ctx, group)
	} else {
		row = e.tx.QueryRowContext(e.ctx, query, group)
	}
	var robot string
	err = row.Scan(&robot)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
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
	for _, group := range groups {
		owner, err := e.owner(group.name)
		if err != nil {
			return err
		}
		to := slices.MinFunc(robots, func(a, b *load) int { return cmp.Compare(a.with(group), b.with(group)) })
		if i := slices.IndexFunc(robots, func(r *load) bool { return r.robot == owner }); i >= 0 {
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
		if _, err := e.exec(`
			INSERT INTO assignments (host, robot, from_generation)
			SELECT name, ?, ? FROM hosts WHERE waiting = 1 AND grp = ?
			ON CONFLICT (host, robot, from_generation) DO UPDATE SET to_generation = NULL, slot = 0`, to.robot, g, group.name); err != nil {
			return err
		}
		if _, err := e.exec(`UPDATE hosts SET waiting = 0 WHERE waiting = 1 AND grp = ?`, group.name); err != nil {
			return err
		}
		to.ms = to.with(group)
		to.hosts += group.hosts
		e.touched[to.robot] = true
	}
	return nil
}

// group is hosts that go to one robot. weight is the time in ms that their pages take at
// the middle robot, measured or, of hosts that nobody has measured, thought.
type group struct {
	name    string
	hosts   int64
	weight  float64
	several int64 // hosts that are to have further robots
}

func (e *edit) waiting() ([]group, error) {
	rows, err := e.tx.QueryContext(e.ctx, `
		SELECT grp, COUNT(*), SUM(COALESCE(weight, (SELECT typical FROM plans)) / parts) AS ms, SUM(CASE WHEN copies > 1 OR parts > 1 THEN 1 ELSE 0 END)
		FROM hosts WHERE waiting = 1 GROUP BY grp ORDER BY ms DESC, grp`)
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
		if err := rows.Scan(&g.name, &g.hosts, &g.weight, &g.several); err != nil {
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

type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
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

// column reads a query's one column.
func column[T any](ctx context.Context, q queryer, query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var values []T
	for rows.Next() {
		var v T
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, rows.Err()
}
