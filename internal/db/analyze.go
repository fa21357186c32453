package db

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Analyze makes PostgreSQL collect statistics about tables of d. It does so only if the number of
// changed rows is a tenth of the first table's rows or more. q is d, or a transaction, whose own
// rows then count, too. Without statistics PostgreSQL may plan to read a whole table for each row
// of another table. Its autovacuum collects them only once a minute, and only for committed rows.
// SQLite needs no statistics: it plans by the existing indices. Analyze reports whether it
// collected the statistics; with SQLite it always reports true.
func Analyze(ctx context.Context, d *sql.DB, q interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, changed int64, tables ...string) (done bool, err error) {
	if !isPostgres(d) {
		return true, nil
	}
	var known float64 // number of rows by the statistics; -1: there are none
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
