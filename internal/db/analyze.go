package db

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Analyze makes PostgreSQL collect statistics about tables of d, if so many rows were changed that
// the statistics of the first one are wrong by a tenth. q is d, or a transaction whose own rows
// count too. Without statistics PostgreSQL may plan to read a whole table for each row of another
// one. Its autovacuum collects them only once a minute, and only of what is committed. SQLite needs
// no statistics: it plans by the indices that there are. Analyze reports whether all is done.
func Analyze(ctx context.Context, d *sql.DB, q interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, changed int64, tables ...string) (done bool, err error) {
	if !isPostgres(d) {
		return true, nil
	}
	var known float64 // -1: nothing
	if err := q.QueryRowContext(ctx, `SELECT reltuples FROM pg_class WHERE oid = CAST(? AS regclass)`, tables[0]).Scan(&known); err != nil {
		return false, fmt.Errorf("analyze: %w", err)
	}
	if float64(changed) < known/10 {
		return false, nil
	}
	if _, err := q.ExecContext(ctx, `ANALYZE `+strings.Join(tables, ", ")); err != nil {
		return false, fmt.Errorf("analyze: %w", err)
	}
	return true, nil
}
