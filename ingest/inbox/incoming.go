package inbox

import (
	"context"
	"database/sql"
	"time"

	"sheaf/internal/db"
)

// The ledger knows every name under which an unpublished batch's objects may lie in the store:
// Batch.Incoming has the names in use, and a table lists the others. A name is listed before its
// objects are stored. When a batch adopts the name, the same transaction strikes it off the list,
// and fails if the name is doomed by then. So a crash leaves no unknown objects, and nothing is
// deleted that a batch may still adopt.

// Announce lists a name whose objects are about to be stored.
func (l *Ledger) Announce(ctx context.Context, name string, now time.Time) error {
	_, err := l.db.ExecContext(ctx, `INSERT INTO ingest_incoming (name, since) VALUES (?, ?)`, name, db.Millis(now))
	return err
}

// adopt strikes a name off the list for the batch that takes it. It returns ErrLost if the name is
// doomed.
func adopt(ctx context.Context, tx *sql.Tx, name string) error {
	if name == "" {
		return nil
	}
	return db.Change(ctx, tx, ErrLost, `DELETE FROM ingest_incoming WHERE name = ? AND doomed = 0`, name)
}

// Doom dooms the names that were announced before the given time and not adopted by a batch. It
// returns all doomed names.
func (l *Ledger) Doom(ctx context.Context, before time.Time) ([]string, error) {
	if _, err := l.db.ExecContext(ctx, `UPDATE ingest_incoming SET doomed = 1 WHERE doomed = 0 AND since < ?`, db.Millis(before)); err != nil {
		return nil, err
	}
	return db.Column[string](ctx, l.db, `SELECT name FROM ingest_incoming WHERE doomed = 1`)
}

// Forget strikes a doomed name off the list, after its objects were deleted.
func (l *Ledger) Forget(ctx context.Context, name string) error {
	_, err := l.db.ExecContext(ctx, `DELETE FROM ingest_incoming WHERE name = ? AND doomed = 1`, name)
	return err
}
