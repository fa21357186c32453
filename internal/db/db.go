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
	"errors"
	"fmt"
	"io/fs"
	"regexp"
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

// ErrOthers says that the schema cannot be brought up to date while other programs are at work on
// the database, because a migration removes something that they need.
//
// Most migrations only add to the schema, and programs of the version before go on. A migration
// that does more says why in a line of its own before its SQL:
//
//	-- Stop all: older programs read the column.
var ErrOthers = errors.New("other programs are at work on the database")

// stopAll finds a migration's reason for not being applied while older programs work.
var stopAll = regexp.MustCompile(`(?m)^-- Stop all: (.+)$`)

// rolling returns ErrOthers if a migration needs the other programs to be stopped. It looks at the
// migrations with numbers above have, up to schema.
func rolling(dir fs.FS, sources []*goose.Source, have, schema int64, others []string) error {
	for _, s := range sources {
		if s.Version <= have || s.Version > schema {
			continue
		}
		text, err := fs.ReadFile(dir, s.Path)
		if err != nil {
			return fmt.Errorf("migrations: %w", err)
		}
		if why := stopAll.FindSubmatch(text); why != nil {
			return fmt.Errorf("migration %d cannot be done now: %w, at %s, and %s Stop all of them, then start this version",
				s.Version, ErrOthers, strings.Join(others, ", "), why[1])
		}
	}
	return nil
}

// Names of a program's connections at the PostgreSQL server (application_name). Connections of a
// program at work have nameAtWork. Connections that only prepare a start, or only look, have
// nameAtStart.
const (
	nameAtWork  = "sheaf"
	nameAtStart = "sheaf start"
)

// atWork returns the addresses of the programs that are at work on the database.
func atWork(ctx context.Context, db *sql.DB) (addresses []string, err error) {
	return Column[string](ctx, db, `SELECT DISTINCT coalesce(host(client_addr), 'this machine') FROM pg_stat_activity
		WHERE datname = current_database() AND backend_type = 'client backend' AND application_name = $1 AND pid <> pg_backend_pid()`, nameAtWork)
}
