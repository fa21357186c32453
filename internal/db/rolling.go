package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/pressly/goose/v3"
)

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
