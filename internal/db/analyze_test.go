package db_test

import (
	"testing"

	"sheaf/internal/db"
	"sheaf/internal/testkit"
)

// After Analyze in a transaction that has inserted many rows, its further statements are planned by
// them.
func TestAnalyzeSeesTheTransactionsRows(t *testing.T) {
	testkit.Slow(t)
	both(t, func(t *testing.T, source string) {
		d := open(t, source)
		tx, err := d.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		for _, name := range []string{"a.test", "b.test", "c.test"} {
			if _, err := tx.Exec(`INSERT INTO hosts (name, state, source, created, grp) VALUES (?, 'accepted', '', 1, ?)`, name, name); err != nil {
				t.Fatal(err)
			}
		}
		if done, err := db.Analyze(t.Context(), d, tx, 3, "hosts", "seeds"); err != nil || !done {
			t.Fatal(done, err)
		}
		if !db.IsPostgres(source) {
			var n int
			if err := tx.QueryRow(`SELECT COUNT(*) FROM sqlite_master WHERE name LIKE 'sqlite_stat%'`).Scan(&n); err != nil || n > 0 {
				t.Errorf("SQLite has %d tables of statistics, %v; its plans would differ from a new database's", n, err)
			}
			return
		}
		var n float64
		if err := tx.QueryRow(`SELECT reltuples FROM pg_class WHERE oid = 'hosts'::regclass`).Scan(&n); err != nil || n != 3 {
			t.Errorf("the server thinks that there are %v hosts, %v", n, err)
		}
		if done, err := db.Analyze(t.Context(), d, tx, 0, "hosts"); err != nil || done {
			t.Errorf("statistics that are right were made again: %v, %v", done, err)
		}
		if _, err := db.Analyze(t.Context(), d, tx, 1, "no_such_table"); err == nil {
			t.Error("a table that is not there was looked at")
		}
	})
}
