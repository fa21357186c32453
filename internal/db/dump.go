package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/stdlib"
)

// A dump has the rows of every table at one moment, in a form that both databases can read. The
// first line of a table is a JSON array of the columns' names. Each other line is a row, also as an
// array. A cell is null, a string, a whole number, {"f": "a real number"} or {"b": "bytes in
// base64"}.

// leftOut are the tables that are not in a dump: the migrations' table, and the queue for leases.
var leftOut = []string{"goose_db_version", "lease_queue"}

// cell is the JSON of a value that JSON cannot express directly.
type cell struct {
	Real  *string `json:"f,omitempty"`
	Bytes *[]byte `json:"b,omitempty"`
}

// Dump writes the rows of each table to the writer that table returns for its name. It returns the
// schema's number.
func Dump(ctx context.Context, d *sql.DB, table func(name string) (io.Writer, error)) (schema int64, err error) {
	err = ReadOnly(ctx, d, func(tx *sql.Tx) error {
		var err error
		if schema, err = schemaOf(ctx, tx); err != nil {
			return err
		}
		names, err := tables(ctx, tx, isPostgres(d))
		if err != nil {
			return err
		}
		for _, name := range names {
			w, err := table(name)
			if err == nil {
				err = dumpTable(ctx, tx, name, w)
			}
			if err != nil {
				return fmt.Errorf("table %s: %w", name, err)
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("dump: %w", err)
	}
	return schema, nil
}

// schemaOf returns the number of the database's schema.
func schemaOf(ctx context.Context, tx *sql.Tx) (schema int64, err error) {
	if err := tx.QueryRowContext(ctx, `SELECT max(version_id) FROM goose_db_version`).Scan(&schema); err != nil {
		return 0, fmt.Errorf("schema: %w", err)
	}
	return schema, nil
}

// isPostgres reports whether Open has opened a PostgreSQL database.
func isPostgres(d *sql.DB) bool {
	_, ok := d.Driver().(*stdlib.Driver)
	return ok
}

// tables returns the names of the tables that a dump has. A table comes after the tables to which
// it refers.
func tables(ctx context.Context, tx *sql.Tx, postgres bool) (names []string, err error) {
	list := `SELECT name, '' FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'`
	refers := `SELECT m.name, p."table" FROM sqlite_master m, pragma_foreign_key_list(m.name) p WHERE m.type = 'table'`
	if postgres {
		list = `SELECT table_name, '' FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'`
		refers = `SELECT a.relname, b.relname FROM pg_constraint c JOIN pg_class a ON a.oid = c.conrelid JOIN pg_class b ON b.oid = c.confrelid
			WHERE c.contype = 'f' AND a.relnamespace = current_schema()::regnamespace`
	}
	all, err := pairs(ctx, tx, list)
	if err != nil {
		return nil, err
	}
	edges, err := pairs(ctx, tx, refers)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	var visit func(name string)
	visit = func(name string) {
		if slices.Contains(names, name) || slices.Contains(leftOut, name) {
			return
		}
		for _, e := range edges {
			if e[0] == name && e[1] != name {
				visit(e[1])
			}
		}
		names = append(names, name)
	}
	for _, t := range all {
		visit(t[0])
	}
	return names, nil
}

func pairs(ctx context.Context, tx *sql.Tx, query string) ([][2]string, error) {
	return List(ctx, tx, func(rows *sql.Rows, p *[2]string) error { return rows.Scan(&p[0], &p[1]) }, query)
}

// usedTable returns the first of the named tables that has rows, or "". It skips tables that the
// schema does not have.
func usedTable(ctx context.Context, tx *sql.Tx, postgres bool, names []string) (string, error) {
	there, err := tables(ctx, tx, postgres)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if !slices.Contains(there, name) {
			continue
		}
		found, err := Column[int](ctx, tx, `SELECT 1 FROM `+name+` LIMIT 1`)
		if err != nil || len(found) > 0 {
			return name, err
		}
	}
	return "", nil
}

func dumpTable(ctx context.Context, tx *sql.Tx, name string, w io.Writer) error {
	rows, err := tx.QueryContext(ctx, `SELECT * FROM `+name)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	if err := out.Encode(columns); err != nil {
		return err
	}
	row, into := make([]any, len(columns)), make([]any, len(columns))
	for n := range row {
		into[n] = &row[n]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for n, v := range row {
			switch x := v.(type) {
			case nil, int64, string:
			case float64:
				text := strconv.FormatFloat(x, 'g', -1, 64)
				row[n] = cell{Real: &text}
			case []byte:
				row[n] = cell{Bytes: &x}
			default:
				return fmt.Errorf("column %s holds a %T, which a dump has no form for", columns[n], v)
			}
		}
		if err := out.Encode(row); err != nil {
			return err
		}
	}
	return rows.Err()
}
