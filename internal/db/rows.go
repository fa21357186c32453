package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// RowsAtOnce is how many rows callers put into one statement. Each statement to a PostgreSQL server
// is a round trip, which takes most of a row's time. Both databases accept 32,766 parameters.
const RowsAtOnce = 500

// Queryer is a *sql.DB or a *sql.Tx.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Transact runs f in one transaction and commits if f returns nil. If f returns an error, nothing
// is changed. opt may be nil.
func Transact(ctx context.Context, d *sql.DB, opt *sql.TxOptions, f func(*sql.Tx) error) error {
	tx, err := d.BeginTx(ctx, opt)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() // does nothing after Commit
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// ReadOnly is Transact for a transaction that only reads: f sees one state of the database.
func ReadOnly(ctx context.Context, d *sql.DB, f func(*sql.Tx) error) error {
	return Transact(ctx, d, &sql.TxOptions{ReadOnly: true}, f)
}

// Literally escapes a text so that LIKE finds exactly this text. The condition must end with
// ESCAPE '\'.
func Literally(text string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text)
}

// Execer is a *sql.DB or a *sql.Tx.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Exec runs a statement and returns the number of rows that it changed.
func Exec(ctx context.Context, on Execer, query string, args ...any) (int64, error) {
	res, err := on.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// At returns a Scanner that reads a column of Unix milliseconds into t, as Time does.
func At(t *time.Time) sql.Scanner { return (*at)(t) }

type at time.Time

// Scan implements sql.Scanner.
func (a *at) Scan(value any) error {
	millis, ok := value.(int64)
	if !ok {
		return fmt.Errorf("%T is no time in milliseconds", value)
	}
	*a = at(Time(millis))
	return nil
}

// Each calls f for each row of a query. f scans the row; an error of f ends the query.
func Each(ctx context.Context, q Queryer, f func(*sql.Rows) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// List returns the rows of a query, each read by scan. Without rows the list is empty, not nil.
func List[T any](ctx context.Context, q Queryer, scan func(*sql.Rows, *T) error, query string, args ...any) ([]T, error) {
	list := []T{}
	err := Each(ctx, q, func(rows *sql.Rows) error {
		var v T
		if err := scan(rows, &v); err != nil {
			return err
		}
		list = append(list, v)
		return nil
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Column returns the values of a query that has one column.
func Column[T any](ctx context.Context, q Queryer, query string, args ...any) ([]T, error) {
	return List(ctx, q, func(rows *sql.Rows, v *T) error { return rows.Scan(v) }, query, args...)
}

// Set returns the values of a query that has one column, as a set.
func Set[T comparable](ctx context.Context, q Queryer, query string, args ...any) (map[T]bool, error) {
	return Map(ctx, q, func(rows *sql.Rows, v *T, is *bool) error {
		*is = true
		return rows.Scan(v)
	}, query, args...)
}

// Pairs returns the rows of a query that has two columns, by the first column.
func Pairs[K comparable, V any](ctx context.Context, q Queryer, query string, args ...any) (map[K]V, error) {
	return Map(ctx, q, func(rows *sql.Rows, k *K, v *V) error { return rows.Scan(k, v) }, query, args...)
}

// Map returns the rows of a query, each read by scan. Of rows with one key the last counts.
func Map[K comparable, V any](ctx context.Context, q Queryer, scan func(*sql.Rows, *K, *V) error, query string, args ...any) (map[K]V, error) {
	found := map[K]V{}
	return found, Each(ctx, q, func(rows *sql.Rows) error {
		var k K
		var v V
		if err := scan(rows, &k, &v); err != nil {
			return err
		}
		found[k] = v
		return nil
	}, query, args...)
}

// Insert enters rows of equal width, RowsAtOnce with each statement. The statement is into, VALUES
// with the rows, and conflict, which says what becomes of rows that exist already.
func Insert(ctx context.Context, on Execer, into string, rows [][]any, conflict string) error {
	for some := range slices.Chunk(rows, RowsAtOnce) {
		_, err := on.ExecContext(ctx, into+` VALUES `+Tuples(len(some), len(some[0]))+` `+conflict, slices.Concat(some...)...)
		if err != nil {
			return err
		}
	}
	return nil
}

// Change runs a statement that must change a row. If no row is changed, it returns the given error.
func Change(ctx context.Context, on Execer, none error, query string, args ...any) error {
	n, err := Exec(ctx, on, query, args...)
	if err == nil && n == 0 {
		return none
	}
	return err
}

// OrNone returns err, or the other error if err says that a query has found no row.
func OrNone(err, none error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return none
	}
	return err
}

// Tuple returns the placeholders of width parameters, in brackets.
func Tuple(width int) string { return "(?" + strings.Repeat(", ?", width-1) + ")" }

// Tuples returns Tuple(width) for each of the rows, separated by commas, for VALUES.
func Tuples(rows, width int) string {
	one := Tuple(width)
	return one + strings.Repeat(", "+one, rows-1)
}

// Args returns values as a statement's arguments.
func Args[T any](values []T) []any {
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = v
	}
	return args
}
