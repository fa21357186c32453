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
	"testing/fstest"

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

// A migration that takes away what programs of the version before need says so (see db.ErrOthers).
// All others only add.
func TestMigrationsOnlyAdd(t *testing.T) {
	takes := regexp.MustCompile(`(?i)\b(DROP TABLE|DROP COLUMN|RENAME|ALTER COLUMN|DELETE FROM|TRUNCATE)\b`)
	column := regexp.MustCompile(`(?i)\bADD COLUMN (\w+).*\bNOT NULL\b`)
	unique := regexp.MustCompile(`(?i)\bCREATE UNIQUE INDEX \w+\s+ON (\w+) \((\w+)`)
	files, err := filepath.Glob("migrations/*.sql")
	testkit.Must(t, err)
	for _, path := range files {
		text, err := os.ReadFile(path)
		testkit.Must(t, err)
		head, rest, ok := strings.Cut(string(text), "-- +goose Up")
		if !ok {
			t.Errorf("%s has no Up", path)
		}
		up, _, _ := strings.Cut(rest, "-- +goose Down")
		var why []string
		for line := range strings.Lines(up) {
			line, _, _ = strings.Cut(line, "--")
			why = append(why, takes.FindString(line))
			if m := column.FindString(line); m != "" && !strings.Contains(line, "DEFAULT") {
				why = append(why, m+" without DEFAULT")
			}
			if m := unique.FindStringSubmatch(line); m != nil && !strings.Contains(up, "CREATE TABLE "+m[1]+" ") && !strings.Contains(up, "ADD COLUMN "+m[2]+" ") {
				why = append(why, m[0])
			}
		}
		if why := strings.TrimSpace(strings.Join(why, " ")); why != "" && !strings.Contains(head, "\n-- Stop all: ") {
			t.Errorf("%s has %s, which a program of the version before may not survive; add and leave the old in this version, and remove it in the next,"+
				" or write '-- Stop all: REASON' before its SQL", path, why)
		}
	}
}

// Statements name their columns, so that one that a later version adds does not matter to them.
func TestStatementsNameColumns(t *testing.T) {
	unnamed := regexp.MustCompile(`SELECT \*|INSERT INTO \w+ +(VALUES|SELECT)`)
	statements := 0
	testkit.Must(t, filepath.WalkDir(testkit.Root(t), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		statements += strings.Count(string(text), "INSERT INTO ")
		if at := unnamed.Find(text); at != nil && filepath.Base(path) != "dump.go" { // which writes the columns' names beside
			t.Errorf("%s has %q", path, at)
		}
		return err
	}))
	if statements < 50 {
		t.Errorf("%d statements were read", statements)
	}
}

// next returns the migrations with one more, which a coming version may have.
func next(t *testing.T, text string) fs.FS {
	t.Helper()
	files, err := filepath.Glob("migrations/*.sql")
	testkit.Must(t, err)
	all := fstest.MapFS{"migrations/99998_next.sql": {Data: []byte(text)}}
	for _, path := range files {
		data, err := os.ReadFile(path)
		testkit.Must(t, err)
		all[path] = &fstest.MapFile{Data: data}
	}
	return all
}

// Texts of a coming version's migration.
const (
	adding = "-- +goose Up\nALTER TABLE robots ADD COLUMN colour TEXT NOT NULL DEFAULT 'red';\n"
	taking = "-- Stop all: older programs read the column.\n\n-- +goose Up\nALTER TABLE robots DROP COLUMN slow;\n"
)

// A migration is applied once on top of a database that is in use, and its rows stay. The program
// of before is refused afterwards.
func TestMigrationOnTop(t *testing.T) {
	both(t, func(t *testing.T, source string) {
		_, err := open(t, source).Exec(`INSERT INTO robots (name, created) VALUES ('waseda', 1)`)
		testkit.Must(t, err)
		for range 2 {
			d, err := db.OpenWith(t.Context(), source, next(t, adding))
			testkit.Must(t, err)
			var colour string
			testkit.Must(t, d.QueryRow(`SELECT colour FROM robots WHERE name = 'waseda'`).Scan(&colour))
			if colour != "red" {
				t.Errorf("the colour is %q", colour)
			}
			testkit.Must(t, d.Close())
		}
		if _, err := db.Open(t.Context(), source); err == nil || !strings.Contains(err.Error(), "schema version 99998 is newer than this program's ") {
			t.Errorf("the program of before: %v, want a refusal", err)
		}
	})
}

// While a program of an older version is at work, the schema is brought up to date only if that
// program can go on.
func TestPostgresUpgradesBesideOthers(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	source := dbtest.Postgres(t)
	older := open(t, source)
	testkit.Must(t, older.Ping())
	if _, err := db.OpenWith(t.Context(), source, next(t, taking)); !errors.Is(err, db.ErrOthers) || !strings.Contains(err.Error(), "migration 99998 ") {
		t.Errorf("beside an older program: %v, want a refusal", err)
	}
	d, err := db.OpenWith(t.Context(), source, next(t, adding))
	testkit.Must(t, err)
	testkit.Must(t, d.Close())
	if _, err := older.Exec(`INSERT INTO robots (name, created) VALUES ('waseda', 1)`); err != nil {
		t.Errorf("the older program cannot go on: %v", err)
	}

	source = dbtest.Postgres(t)
	older = open(t, source)
	testkit.Must(t, older.Close())
	testkit.Eventually(t, "the older program is gone", func() error {
		d, err := db.OpenWith(t.Context(), source, next(t, taking))
		if err != nil {
			return err
		}
		return d.Close()
	})
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
