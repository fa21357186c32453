package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// ErrDamaged says that a SQLite file is not as SQLite wrote it.
var ErrDamaged = errors.New("the database is damaged")

// checkTime is how long Open looks for damage in a SQLite file. The check of a large file does not
// get to its end; damage there shows when the rows are used.
const checkTime = 5 * time.Second

// damaged adds ErrDamaged to errors with which SQLite reports damage.
func damaged(err error) error {
	if e, ok := errors.AsType[*sqlite.Error](err); ok && (e.Code()&0xff == sqlite3.SQLITE_CORRUPT || e.Code()&0xff == sqlite3.SQLITE_NOTADB) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// check looks for damage in a SQLite file. It returns nil if it needs longer than checkTime.
func check(ctx context.Context, d *sql.DB) error {
	bounded, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	var found string
	err := d.QueryRowContext(bounded, `PRAGMA quick_check(1)`).Scan(&found)
	switch {
	case ctx.Err() == nil && bounded.Err() != nil:
		return nil
	case err != nil:
		return err
	case found != "ok":
		return fmt.Errorf("%w: %s", ErrDamaged, strings.TrimSpace(found))
	}
	return nil
}

// Used reports whether a service has worked with the database that the source names. It changes
// nothing, and does not create a file or a schema.
func Used(ctx context.Context, source string) (used bool, err error) {
	if IsPostgres(source) {
		config, err := pgx.ParseConfig(source)
		if err != nil {
			return false, fmt.Errorf("database: %w", err) // pgx leaves the password out
		}
		config.RuntimeParams["application_name"] = nameAtStart
		return isUsed(ctx, stdlib.OpenDB(*config))
	}
	path, err := filepath.Abs(source)
	if err != nil {
		return false, fmt.Errorf("database: %w", err)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return false, nil
	}
	var d *sql.DB
	if err == nil {
		d, err = sql.Open("sqlite", dsn(path))
	}
	if err == nil {
		used, err = isUsed(ctx, d)
	}
	if err != nil {
		return false, fmt.Errorf("database %s: %w", path, damaged(err))
	}
	return used, nil
}

// isUsed looks for rows that a service writes, and closes the database.
func isUsed(ctx context.Context, d *sql.DB) (bool, error) {
	var used string
	err := ReadOnly(ctx, d, func(tx *sql.Tx) (err error) {
		used, err = usedTable(ctx, tx, isPostgres(d), append(slices.Clone(usedTables), "service_key"))
		return err
	})
	return used != "", errors.Join(err, d.Close())
}

// Full reports whether an error says that the disk of the database, or its quota, is full.
func Full(err error) bool {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refused.Code == "53100"
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code()&0xff == sqlite3.SQLITE_FULL
}

// Away reports whether an error says that a PostgreSQL server cannot be reached, did not answer in
// time or accepts no connections now. It is false if the server refuses this client.
func Away(err error) bool {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(refused.Code, "57P0") || refused.Code == "53300" || strings.HasPrefix(refused.Code, "08")
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded)
}
