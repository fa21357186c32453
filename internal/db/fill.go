package db

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// ErrNotEmpty says that a database is in use: a dump goes into a new one only.
var ErrNotEmpty = errors.New("the database is not empty")

// mustBeEmpty are tables that have rows where a service has been at work.
var mustBeEmpty = []string{"robots", "hosts", "accounts", "ingest_batches"}

// Fill puts a dump's tables, named by tables and read from open, into the database that the source
// names, which is new, and brings it up to this program's schema. Either all of it is there
// afterwards or nothing; finish, which may be nil, works on it before, in the schema of the dump.
// Dumps of either kind of database go into either.
func Fill(ctx context.Context, source string, schema int64, names []string, open func(name string) (io.ReadCloser, error), finish func(context.Context, *sql.Tx) error) (err error) {
	d, err := openAt(ctx, source, schema)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	tx, err := d.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	defer tx.Rollback() // does nothing after Commit
	var have int64
	if err := tx.QueryRowContext(ctx, `SELECT max(version_id) FROM goose_db_version`).Scan(&have); err != nil {
		return fmt.Errorf("fill: schema: %w", err)
	}
	if have != schema {
		return fmt.Errorf("fill: the dump is of schema %d, the database of %d already: %w; take a new one, before a service is started on it", schema, have, ErrNotEmpty)
	}
	there, err := tables(ctx, tx, isPostgres(d))
	if err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	for _, name := range mustBeEmpty {
		if !slices.Contains(there, name) {
			continue // it came with a later schema
		}
		var n int64
		if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM `+name).Scan(&n); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
		if n > 0 {
			return fmt.Errorf("fill: table %s has %d rows: %w", name, n, ErrNotEmpty)
		}
	}
	for _, name := range names {
		if !slices.Contains(there, name) {
			return fmt.Errorf("fill: schema %d has no table %q", schema, name)
		}
	}
	for _, name := range slices.Backward(there) { // what the migrations put there
		if _, err := tx.ExecContext(ctx, `DELETE FROM `+name); err != nil {
			return fmt.Errorf("fill table %s: %w", name, err)
		}
	}
	for _, name := range there {
		if !slices.Contains(names, name) {
			continue
		}
		if err := fillTable(ctx, tx, name, open); err != nil {
			return fmt.Errorf("fill table %s: %w", name, err)
		}
	}
	if isPostgres(d) {
		if err := advance(ctx, tx); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	if finish != nil {
		if err := finish(ctx, tx); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	return migrateTo(ctx, source, newest)
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
			return fmt.Errorf("line 1: %q is no column", c)
		}
	}
	put, err := tx.PrepareContext(ctx, `INSERT INTO `+name+` (`+strings.Join(columns, ", ")+`) VALUES (`+
		strings.TrimSuffix(strings.Repeat("?, ", len(columns)), ", ")+`)`)
	if err != nil {
		return err
	}
	defer put.Close()
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
		if _, err := put.ExecContext(ctx, values...); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
}

// value reads one cell.
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
		return nil, fmt.Errorf("cell %s is none", raw)
	}
	return strconv.ParseInt(string(raw), 10, 64)
}

// advance lets PostgreSQL's counters go on after the numbers that were put in.
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
