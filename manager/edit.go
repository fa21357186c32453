package manager

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"sheaf/internal/db"
)

// edit is one transaction on hosts and assignments. However many changes it holds,
// they make one generation, and none where nothing changes.
type edit struct {
	ctx        context.Context
	db         *sql.DB
	tx         *sql.Tx
	generation int64           // 0 until the first change
	touched    map[string]bool // robots whose list is another after this edit

	tally  *tally // what robots have to do, as others last found it, or once summed is set this edit; nil: not known
	summed bool
	taken  bool // something was taken from a robot, which tally does not know

	changed int64 // rows, since the database has last looked at them

	times map[string]int // that a statement was executed
	again map[string]*sql.Stmt
}

// edit runs f, gives waiting hosts to robots, notes whose lists have changed, and commits.
func (m *Manager) edit(ctx context.Context, f func(*edit) error) error {
	var e *edit
	err := m.transact(ctx, nil, func(tx *sql.Tx) error {
		e = &edit{ctx: ctx, db: m.db, tx: tx, touched: map[string]bool{}, tally: m.tally.Load(), times: map[string]int{}, again: map[string]*sql.Stmt{}}
		if err := f(e); err != nil {
			return err
		}
		if err := e.analyze(); err != nil {
			return err
		}
		if err := errors.Join(e.settle(), e.complete()); err != nil {
			return fmt.Errorf("assign hosts: %w", err)
		}
		return errors.Join(e.publish(), e.analyze())
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
	n, err := res.RowsAffected()
	e.changed += n
	return n, err
}

// analyze has the database look at the edit's tables where it has changed much of them.
func (e *edit) analyze() error {
	const much = 1000
	if e.changed < much {
		return nil
	}
	e.changed = 0
	return db.Analyze(e.ctx, e.db, e.tx, "hosts", "seeds", "assignments")
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

type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
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
