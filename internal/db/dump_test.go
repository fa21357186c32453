package db_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
)

// dump returns the tables of a dump as text.
func dump(t *testing.T, d *sql.DB) (schema int64, all map[string]string) {
	t.Helper()
	files := map[string]*bytes.Buffer{}
	schema, err := db.Dump(t.Context(), d, func(name string) (io.Writer, error) {
		files[name] = new(bytes.Buffer)
		return files[name], nil
	})
	if err != nil {
		t.Fatal(err)
	}
	all = map[string]string{}
	for name, b := range files {
		all[name] = b.String()
	}
	return schema, all
}

func fill(ctx context.Context, source string, schema int64, all map[string]string) error {
	return db.Fill(ctx, source, schema, slices.Collect(maps.Keys(all)), reader(all), nil)
}

// reader opens the tables of a dump.
func reader(all map[string]string) func(name string) (io.ReadCloser, error) {
	return func(name string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(all[name])), nil }
}

// A dump of either kind of database can be put into either kind. A dump of the copy is the same.
func TestDumpAndFill(t *testing.T) {
	testkit.Slow(t)
	kinds := map[string]func(testing.TB) string{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres}
	for from, source := range kinds {
		d := open(t, source(t))
		for _, statement := range []struct {
			query string
			args  []any
		}{
			{`INSERT INTO robots (name, created, secret_hash, slow) VALUES (?, ?, ?, ?)`, []any{"waseda", int64(math.MaxInt64), []byte{0, 1, 255}, 0.1}},
			{`INSERT INTO robots (name, created, slow) VALUES (?, ?, ?)`, []any{"早稲田 \"<&>\"\n", -1, 1.0}},
			{`INSERT INTO hosts (name, state, source, created, grp, weight) VALUES ('a.test', 'accepted', '', 1, 'a.test', 3)`, nil},
			{`INSERT INTO seeds (host, url) VALUES ('a.test', 'http://a.test/')`, nil},
			{`UPDATE generation SET number = 41`, nil},
			{`INSERT INTO transfers (at, direction, protocol, who, name, bytes, took_us, outcome, remote) VALUES (1, 'upload', 'http', 'r', 'n', 1, 1, 'ok', '')`, nil},
			{`INSERT INTO lease_queue (name, token, holder) VALUES ('publish', 1, 'of the dead')`, nil},
		} {
			if _, err := d.Exec(statement.query, statement.args...); err != nil {
				t.Fatal(err)
			}
		}
		schema, all := dump(t, d)
		if _, ok := all["lease_queue"]; ok {
			t.Error("the dump has who waits for leases")
		}
		for to, target := range kinds {
			t.Run(from+" into "+to, func(t *testing.T) {
				into := target(t)
				if err := fill(t.Context(), into, schema, all); err != nil {
					t.Fatal(err)
				}
				copied := open(t, into)
				again, same := dump(t, copied)
				if again != schema {
					t.Errorf("schema %d of %d", again, schema)
				}
				for name, text := range all {
					if sorted(same[name]) != sorted(text) {
						t.Errorf("table %s:\n%s\nwas\n%s", name, same[name], text)
					}
				}
				if _, err := copied.Exec(`INSERT INTO transfers (at, direction, protocol, who, name, bytes, took_us, outcome, remote) VALUES (2, 'upload', 'http', 'r', 'n', 1, 1, 'ok', '')`); err != nil {
					t.Errorf("the copy's next row: %v", err)
				}
				if err := fill(t.Context(), into, schema, all); !errors.Is(err, db.ErrNotEmpty) {
					t.Errorf("once more: %v", err)
				}
			})
		}
	}
}

// sorted returns a text with its lines sorted.
func sorted(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// A damaged dump changes nothing. A dump of an older schema is brought up to date.
func TestFillRefusesAndBringsUp(t *testing.T) {
	testkit.Slow(t)
	both(t, func(t *testing.T, source string) {
		schema, all := dump(t, open(t, dbtest.SQLite(t)))
		all["robots"] += `["cut", 1` + "\n"
		if err := fill(t.Context(), source, schema, all); err == nil {
			t.Error("a damaged table was taken")
		}
		if err := fill(t.Context(), source, schema+1000, all); err == nil {
			t.Error("a later schema was taken")
		}
		var n int64
		if err := open(t, source).QueryRow(`SELECT number FROM generation`).Scan(&n); err != nil {
			t.Errorf("what the migrations made is gone: %v", err)
		}
	})
	both(t, func(t *testing.T, source string) {
		schema, all := dump(t, open(t, dbtest.SQLite(t)))
		all["robots"] = `["name","created"]` + "\n" + `["waseda",1]` + "\n"
		testkit.Must(t, db.FillUpTo(t.Context(), next(t, adding), source, schema, slices.Collect(maps.Keys(all)), reader(all), nil))
		d, err := db.OpenWith(t.Context(), source, next(t, adding))
		testkit.Must(t, err)
		defer d.Close()
		var colour string
		if err := d.QueryRow(`SELECT colour FROM robots WHERE name = 'waseda'`).Scan(&colour); err != nil || colour != "red" {
			t.Errorf("a column that came later is %q, %v", colour, err)
		}
	})
}
