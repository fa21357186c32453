package db_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
)

// both runs a test on each kind of database.
func both(t *testing.T, test func(t *testing.T, source string)) {
	for name, source := range map[string]func(testing.TB) string{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		t.Run(name, func(t *testing.T) { test(t, source(t)) })
	}
}

func open(t *testing.T, source string) *sql.DB {
	t.Helper()
	d, err := db.Open(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// Both databases behave in the same way where the rooms' SQL relies on it.
func TestBothSpeakTheSameSQL(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	both(t, func(t *testing.T, source string) {
		d := open(t, source)
		if _, err := d.Exec(`CREATE TABLE things (a BIGINT NOT NULL, b BIGINT NOT NULL, c TEXT NOT NULL)`); err != nil {
			t.Fatal(err)
		}
		// Repeated numbers, a ? in a string, a boolean as a number, text with a NUL.
		_, err := d.Exec(`INSERT INTO things (a, b, c) VALUES (?2, ?1, 'why?' || ?3)`, true, 7, "\x00")
		if err != nil {
			t.Fatal(err)
		}
		var a int64
		var b bool
		var c string
		if err := d.QueryRow(`SELECT a, b, c FROM things WHERE a = ? AND b = ?`, 7, 1).Scan(&a, &b, &c); err != nil {
			t.Fatal(err)
		}
		if a != 7 || !b || !strings.HasPrefix(c, "why?") {
			t.Errorf("got %d, %v, %q", a, b, c)
		}
	})
}

// Text is ordered by its bytes in every table, whatever the locale of the server.
func TestBothOrderText(t *testing.T) {
	testkit.Slow(t)
	both(t, func(t *testing.T, source string) {
		d := open(t, source)
		for _, name := range []string{"a", "B", "Z", "é", "_"} {
			if _, err := d.Exec(`INSERT INTO leases (name, token) VALUES (?, 1)`, name); err != nil {
				t.Fatal(err)
			}
		}
		rows, err := d.Query(`SELECT name FROM leases WHERE name <> 'publish' ORDER BY name`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var order []string
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				t.Fatal(err)
			}
			order = append(order, name)
		}
		if got := strings.Join(order, " "); got != "B Z _ a é" {
			t.Errorf("order %s", got)
		}
	})
}

// A writing transaction that reads first waits until it is the only writer, so none overwrites what
// another has written. A read-only one sees one state from its beginning to its end.
func TestBothTakeTurns(t *testing.T) {
	both(t, func(t *testing.T, source string) {
		var writers sync.WaitGroup
		const each = 20
		for range 4 {
			d := open(t, source)
			writers.Go(func() {
				for range each {
					if err := readAndWrite(t.Context(), d); err != nil {
						t.Error(err)
					}
				}
			})
		}
		d := open(t, source)
		tx, err := d.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		first := generation(t, tx)
		writers.Wait()
		if n := generation(t, tx); n != first {
			t.Errorf("a reader sees %d, then %d", first, n)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if n := generation(t, d); n != 4*each {
			t.Errorf("%d of %d additions are there", n, 4*each)
		}
	})
}

func readAndWrite(ctx context.Context, d *sql.DB) error {
	tx, err := d.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var n int64
	if err := tx.QueryRowContext(ctx, `SELECT number FROM generation`).Scan(&n); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE generation SET number = ?`, n+1); err != nil {
		return err
	}
	return tx.Commit()
}

func generation(t *testing.T, q interface {
	QueryRow(string, ...any) *sql.Row
}) (n int64) {
	t.Helper()
	if err := q.QueryRow(`SELECT number FROM generation`).Scan(&n); err != nil {
		t.Error(err)
	}
	return n
}

// Several processes that start with one empty database migrate its schema once.
func TestBothOpenAtOnce(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	both(t, func(t *testing.T, source string) {
		if !db.IsPostgres(source) {
			t.Skip("one process owns a SQLite file")
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				d, err := db.Open(t.Context(), source)
				if err != nil {
					t.Error(err)
					return
				}
				d.Close()
			})
		}
		all.Wait()
	})
}

func TestPostgresRefusesNewerSchema(t *testing.T) {
	source := dbtest.Postgres(t)
	d := open(t, source)
	if _, err := d.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)`); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Open(t.Context(), source); err == nil || !strings.Contains(err.Error(), "newer than this program") {
		t.Fatalf("got %v, want a refusal", err)
	}
}

// No error has the password of the database.
func TestPostgresErrorHidesPassword(t *testing.T) {
	for _, source := range []string{"postgres://me:hunter2@127.0.0.1:1/sheaf?sslmode=disable", "postgres://me:hunter2@127.0.0.1:x/sheaf"} {
		_, err := db.Open(t.Context(), source)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
	}
}

// The migrations use only words that are the same in both databases or are translated.
func TestMigrationsKeepToWords(t *testing.T) {
	foreign := regexp.MustCompile(`(?i)\b(AUTOINCREMENT|DATETIME|REPLACE INTO|INSERT OR|PRAGMA|strftime|unixepoch|json_each|rowid_|COLLATE)\b`)
	err := filepath.WalkDir("migrations", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if at := foreign.Find(text); at != nil {
			err = errors.Join(err, errors.New(path+": "+string(at)+" is not the same in both databases"))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
