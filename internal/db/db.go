// Package db opens the service's control database, which holds robots, hosts, assignments, the
// states of batches, accounts, watches, jobs and transfers. It is either one SQLite file with a
// write-ahead log, used by one process, or a PostgreSQL database, which any number of processes
// share. All SQL is the same for both.
//
// Every commit waits for the disk, so it is durable (synchronous=FULL in SQLite, synchronous_commit
// in PostgreSQL). Unless it is read-only, a transaction waits at its beginning until it is the only
// writer (BEGIN IMMEDIATE, or an advisory lock). So it is never refused in the middle, and rows
// that it has read do not change until it ends. A statement outside a transaction is atomic.
//
// The schema is the sum of migrations/*.sql, which Open applies in the order of their numbers. The
// first has the whole schema of the first release, each later one the additions of a release.
// Programs of the version before may work on a PostgreSQL database meanwhile, unless a migration
// forbids it: see ErrOthers. Times are Unix milliseconds (see Time and Millis); digests and keys
// are blobs. Parameters are ? or ?n.
package db

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schema is the state to which migrations bring a database.
type schema struct {
	files  fs.FS // with the folder migrations
	number int64 // number of the last migration to apply; 0: the newest
}

// today is the schema that this program works with.
var today = schema{files: migrations}

// busyTimeout is how long a SQLite transaction waits for other writers before it fails.
const busyTimeout = 15 * time.Second

// Open opens a database and brings its schema up to date. The source is a URL,
// postgres://user@host/database?sslmode=…, or the path of a SQLite file, which Open creates with
// mode 0600 if there is none. It fails if a newer version of the program has written the database,
// and with ErrDamaged if a check of a few seconds finds damage.
func Open(ctx context.Context, source string) (*sql.DB, error) {
	return openAt(ctx, source, today)
}

// openAt opens a database and brings it up to a schema.
func openAt(ctx context.Context, source string, to schema) (*sql.DB, error) {
	if IsPostgres(source) {
		return openPostgres(ctx, source, to)
	}
	return openSQLite(ctx, source, to)
}

// IsPostgres reports whether a source is the URL of a PostgreSQL database.
func IsPostgres(source string) bool {
	return strings.HasPrefix(source, "postgres://") || strings.HasPrefix(source, "postgresql://")
}

func openSQLite(ctx context.Context, path string, to schema) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	reservePages()
	db := sql.OpenDB(&turns{source: dsn(path), longest: busyTimeout, turn: make(chan struct{}, 1)})
	err = check(ctx, db)
	if err == nil {
		err = migrate(ctx, db, to, nil, goose.DialectSQLite3, func(dir fs.FS) fs.FS { return dir })
	}
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("database %s: %w", path, damaged(err))
	}
	db.SetMaxOpenConns(maxConnections)
	db.SetMaxIdleConns(idleConnections)
	return db, nil
}

// idleConnections is the number of SQLite connections that stay open. A new connection must first
// read the schema, and its cache is empty.
const idleConnections = 8

func dsn(path string) string {
	q := url.Values{
		"_pragma": {
			fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), // first, since the next one may have to wait
			"journal_mode(WAL)",
			"synchronous(FULL)",
			"foreign_keys(1)",
			"cache_size(-16384)", // KiB of a connection; the default, 2 MiB, is too little for a list of 1,000 hosts
		},
		"_txlock": {"immediate"},
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	return u.String()
}

// migrate brings a database up to a schema. words translates the migrations' files for the
// database. others are the addresses of other programs that were at work on it a moment ago.
func migrate(ctx context.Context, db *sql.DB, to schema, others []string, dialect goose.Dialect, words func(fs.FS) fs.FS, opt ...goose.ProviderOption) error {
	dir, err := fs.Sub(to.files, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(dialect, db, words(dir), append(opt, goose.WithDisableGlobalRegistry(true))...)
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	have, last, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("schema version: %w", err)
	}
	if to.number == 0 {
		to.number = last
	}
	if newer := max(have, to.number); newer > last {
		return fmt.Errorf("schema version %d is newer than this program's %d; run the program that wrote it, or a later one", newer, last)
	}
	if len(others) > 0 && have > 0 {
		if err := rolling(dir, p.ListSources(), have, to.number, others); err != nil {
			return err
		}
	}
	if _, err := p.UpTo(ctx, to.number); err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	return nil
}

// Millis returns t in the form of the database, Unix milliseconds. The zero time is 0.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Time is the inverse of Millis, in UTC.
func Time(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}
