package db

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Analyze makes PostgreSQL collect statistics about tables of d, of which many rows have changed. q
// is d, or a transaction whose own rows count too. Without statistics PostgreSQL may plan to read a
// whole table for each row of another one. Its autovacuum collects them only once a minute, and
// only of what is committed. SQLite needs no statistics: it plans by the indices that there are.
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
