package db

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// ErrNotEmpty says that a database is in use. A dump goes only into a new one.
var ErrNotEmpty = errors.New("the database is not empty")

// usedTables are tables that have rows once a service has worked with the database.
var usedTables = []string{"robots", "hosts", "accounts", "ingest_batches"}

// Fill puts the tables of a dump into the new database that source names, and brings the database
// up to this program's schema. number is the number of the dump's schema, and open returns a
// table's rows. Before the commit Fill calls finish, if it is not nil, while the database has the
// dump's schema. If it fails up to the commit, no rows are put in; if only a later migration fails,
// the rows stay. Dumps of SQLite and of PostgreSQL fit both.
func Fill(ctx context.Context, source string, number int64, names []string, open func(name string) (io.ReadCloser, error), finish func(context.Context, *sql.Tx) error) error {
	return fillUpTo(ctx, today.files, source, number, names, open, finish)
}

// fillUpTo is Fill with the migrations of files.
func fillUpTo(ctx context.Context, files fs.FS, source string, number int64, names []string, open func(name string) (io.ReadCloser, error), finish func(context.Context, *sql.Tx) error) error {
	d, err := openAt(ctx, source, schema{files, number})
	if err != nil {
		return err
	}
	err = Transact(ctx, d, nil, func(tx *sql.Tx) error {
		if err := fill(ctx, tx, isPostgres(d), number, names, open); err != nil || finish == nil {
			return err
		}
		return finish(ctx, tx)
	})
	if err := errors.Join(err, d.Close()); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	if d, err = openAt(ctx, source, schema{files: files}); err != nil {
		return err
	}
	return d.Close()
}

func fill(ctx context.Context, tx *sql.Tx, postgres bool, schema int64, names []string, open func(name string) (io.ReadCloser, error)) error {
	have, err := schemaOf(ctx, tx)
	if err != nil {
		return err
	}
	if have != schema {
		return fmt.Errorf("the dump is of schema %d, the database of %d already: %w; take a new one, before a service is started on it", schema, have, ErrNotEmpty)
	}
	used, err := usedTable(ctx, tx, postgres, usedTables)
	if err != nil {
		return err
	}
	if used != "" {
		return fmt.Errorf("table %s has rows: %w", used, ErrNotEmpty)
	}
	there, err := tables(ctx, tx, postgres)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.Contains(there, name) {
			return fmt.Errorf("schema %d has no table %q", schema, name)
		}
	}
	for _, name := range slices.Backward(there) { // rows from the migrations
		if _, err := tx.ExecContext(ctx, `DELETE FROM `+name); err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
	}
	for _, name := range there {
		if slices.Contains(names, name) {
			if err := fillTable(ctx, tx, name, open); err != nil {
				return fmt.Errorf("table %s: %w", name, err)
			}
		}
	}
	if postgres {
		return advance(ctx, tx)
	}
	return nil
}

func fillTable(ctx context.Context, tx *sql.Tx, name string, open func(string) (io.ReadCloser, error)) (err error) {
	r, err := open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	lines := json.NewDecoder(bufio.NewReader(r))
	lines.UseNumber()
	var columns []string
	if err := lines.Decode(&columns); err != nil {
		return fmt.Errorf("line 1: %w", err)
	}
	for _, c := range columns {
		if strings.Trim(c, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" || c == "" {
			return fmt.Errorf("line 1: %q is not a column name", c)
		}
	}
	insert := `INSERT INTO ` + name + ` (` + strings.Join(columns, ", ") + `) VALUES ` + Tuple(len(columns))
	for n := 2; ; n++ {
		var row []json.RawMessage
		if err := lines.Decode(&row); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		values := make([]any, len(row))
		for k, raw := range row {
			if values[k], err = value(raw); err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
		}
		if len(values) != len(columns) {
			return fmt.Errorf("line %d: %d cells of %d", n, len(values), len(columns))
		}
		if _, err := tx.ExecContext(ctx, insert, values...); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
}

// value returns a dump's cell as an argument for a statement.
func value(raw json.RawMessage) (any, error) {
	switch raw[0] {
	case 'n':
		return nil, nil
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	case '{':
		var c cell
		if err := json.Unmarshal(raw, &c); err != nil {
			return nil, err
		}
		switch {
		case c.Real != nil:
			return strconv.ParseFloat(*c.Real, 64)
		case c.Bytes != nil:
			return *c.Bytes, nil
		}
		return nil, fmt.Errorf("cell %s is neither a number nor bytes", raw)
	}
	return strconv.ParseInt(string(raw), 10, 64)
}

// advance sets PostgreSQL's counters to the highest numbers that were put in.
func advance(ctx context.Context, tx *sql.Tx) error {
	counters, err := pairs(ctx, tx, `SELECT table_name, column_name FROM information_schema.columns
		WHERE table_schema = current_schema() AND is_identity = 'YES'`)
	if err != nil {
		return err
	}
	for _, c := range counters {
		_, err := tx.ExecContext(ctx, fmt.Sprintf(`SELECT setval(pg_get_serial_sequence('%s', '%s'), GREATEST((SELECT COALESCE(MAX(%s), 0) FROM %s), 1))`, c[0], c[1], c[1], c[0]))
		if err != nil {
			return fmt.Errorf("counter of %s: %w", c[0], err)
		}
	}
	return nil
}
