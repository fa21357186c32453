package db_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
)

// A query that is asked often sees each change at once: of rows and of the table, on every
// connection. A call that was given up, or a row that is not there, spoils nothing.
func TestQueryIsAskedOften(t *testing.T) {
	both(t, func(t *testing.T, source string) {
		d := open(t, source)
		_, err := d.Exec("CREATE TABLE fruit (name TEXT PRIMARY KEY, n INTEGER)")
		testkit.Must(t, err)
		const query = "SELECT n FROM fruit WHERE name = ?"
		given, cancel := context.WithCancel(t.Context())
		cancel()
		var n int
		if err := d.QueryRowContext(given, query, "apple").Scan(&n); !errors.Is(err, context.Canceled) {
			t.Errorf("a call that was given up: %v", err)
		}
		if err := d.QueryRowContext(t.Context(), query, "apple").Scan(&n); !errors.Is(err, sql.ErrNoRows) {
			t.Errorf("before there is a row: %v", err)
		}
		for want, change := range []string{
			"INSERT INTO fruit VALUES ('apple', 0)", "UPDATE fruit SET n = 1", "ALTER TABLE fruit ADD COLUMN colour TEXT",
			"CREATE INDEX fruit_n ON fruit (n)",
		} {
			_, err := d.Exec(change)
			testkit.Must(t, err)
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					var n int
					if err := d.QueryRowContext(t.Context(), query, "apple").Scan(&n); err != nil || n != min(want, 1) {
						t.Errorf("after %s: %d, %v", change, n, err)
					}
				})
			}
			all.Wait()
		}
	})
}

// Rows can be read while the same SQL is executed again on their connection, and after much other
// SQL.
func TestSameQueryWithinItsRows(t *testing.T) {
	d := open(t, dbtest.SQLite(t))
	_, err := d.Exec("CREATE TABLE fruit (name TEXT PRIMARY KEY, n INTEGER); INSERT INTO fruit VALUES ('apple', 1), ('pear', 2)")
	testkit.Must(t, err)
	testkit.Must(t, db.Transact(t.Context(), d, nil, func(tx *sql.Tx) error {
		const query = "SELECT name FROM fruit WHERE n >= ? ORDER BY n"
		var read []string
		err := db.Each(t.Context(), tx, func(rows *sql.Rows) error {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			within, err := db.Column[string](t.Context(), tx, query, 2)
			read = append(append(read, name), within...)
			for n := range 100 {
				if _, err := tx.Exec("UPDATE fruit SET n = n WHERE name = 'plum' -- " + strings.Repeat("many words ", 50) + strconv.Itoa(n)); err != nil {
					return err
				}
			}
			return err
		}, query, 1)
		if want := []string{"apple", "pear", "pear", "pear"}; !slices.Equal(read, want) {
			t.Errorf("read %q, want %q", read, want)
		}
		return err
	}))
}
