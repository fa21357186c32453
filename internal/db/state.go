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

// ErrDamaged says that a SQLite file is not what was written.
var ErrDamaged = errors.New("the database is damaged")

// lookFor is how long a start looks through a SQLite file for damage; of a file so large that this does not
// suffice, what was not looked at shows when it is used.
const lookFor = 5 * time.Second

// damaged marks errors that say that a SQLite file is not what was written.
func damaged(err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) && (e.Code()&0xff == sqlite3.SQLITE_CORRUPT || e.Code()&0xff == sqlite3.SQLITE_NOTADB) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// lookThrough looks for damage in a SQLite file.
func lookThrough(ctx context.Context, d *sql.DB) error {
	bounded, cancel := context.WithTimeout(ctx, lookFor)
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

// Used reports whether a service has been at work on the database that the source names. It changes
// nothing: where there is no file or no schema yet, it makes none.
func Used(ctx context.Context, source string) (used bool, err error) {
	if IsPostgres(source) {
		config, err := pgx.ParseConfig(source)
		if err != nil {
			return false, fmt.Errorf("database: %w", err) // pgx leaves the password out
		}
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
func isUsed(ctx context.Context, d *sql.DB) (_ bool, err error) {
	defer func() { err = errors.Join(err, d.Close()) }()
	tx, err := d.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	there, err := tables(ctx, tx, isPostgres(d))
	if err != nil {
		return false, err
	}
	for _, name := range append(slices.Clone(mustBeEmpty), "service_key") {
		if !slices.Contains(there, name) {
			continue
		}
		var n int64
		if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM `+name+` LIMIT 1) AS found`).Scan(&n); err != nil {
			return false, err
		}
		if n > 0 {
			return true, nil
		}
	}
	return false, nil
}

// Away reports whether an error says that a PostgreSQL server cannot be reached or does not take
// connections now, and not that it refuses this client.
func Away(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return strings.HasPrefix(refused.Code, "57P0") || refused.Code == "53300" || strings.HasPrefix(refused.Code, "08")
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded)
}
