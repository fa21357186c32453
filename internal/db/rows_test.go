package db_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"

	"sheaf/internal/db"
	"sheaf/internal/testkit"
)

// A query that is asked often sees each change at once: of rows and of the table, on every
// connection. A call that was given up, or a row that is not there, spoils nothing.
func TestQueryIsAskedOften(t *testing.T) {
	both(t, func(t *testing.T, source string) {
		d := open(t, source)
		_, err := d.Exec("CREATE TABLE fruit (name TEXT PRIMARY KEY, n INTEGER)")
		testkit.Must(t, err)
		q := db.Query{Text: "SELECT n FROM fruit WHERE name = ?"}
		given, cancel := context.WithCancel(t.Context())
		cancel()
		var n int
		if err := q.Row(given, d, "apple").Scan(&n); !errors.Is(err, context.Canceled) {
			t.Errorf("a call that was given up: %v", err)
		}
		if err := q.Row(t.Context(), d, "apple").Scan(&n); !errors.Is(err, sql.ErrNoRows) {
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
					if err := q.Row(t.Context(), d, "apple").Scan(&n); err != nil || n != min(want, 1) {
						t.Errorf("after %s: %d, %v", change, n, err)
					}
				})
			}
			all.Wait()
		}
	})
}
