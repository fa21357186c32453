package db

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Analyze has PostgreSQL look at the rows of tables of d of which many have changed; q is d or a transaction
// in it, whose own rows count. Until somebody has looked, a statement is planned by guesses, and as such goes
// through a whole table or index for each of its rows: the server's autovacuum looks once a minute, and
// at what is committed. SQLite plans by the indices that there are and needs none of it.
func Analyze(ctx context.Context, d *sql.DB, q interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, tables ...string) error {
	if !isPostgres(d) {
		return nil
	}
	if _, err := q.ExecContext(ctx, `ANALYZE `+strings.Join(tables, ", ")); err != nil {
		return fmt.Errorf("analyze: %w", err)
	}
	return nil
}
