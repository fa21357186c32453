package inbox

import (
	"context"
	"database/sql"
	"time"

	"sheaf/internal/db"
)

// The ledger knows every name under which objects of a batch that is not published may lie in the
// store: Batch.Incoming has the names in use, and a table lists the others. A name is listed before
// its objects are stored. The transaction by which a batch takes the name strikes it off, and fails
// if the name is doomed by then. So a crash leaves nothing that is not known, and nothing is
// deleted that a batch may still take.

// Announce lists a name whose objects are about to be stored.
func (l *Ledger) Announce(ctx context.Context, name string, now time.Time) error {
	_, err := l.db.ExecContext(ctx, `INSERT INTO ingest_incoming (name, since) VALUES (?, ?)`, name, db.Millis(now))
	return err
}

// adopt strikes off the name that a batch takes. It returns ErrLost if the name is doomed.
func adopt(ctx context.Context, tx *sql.Tx, name string) error {
	if name == "" {
		return nil
	}
	return changed(tx.ExecContext(ctx, `DELETE FROM ingest_incoming WHERE name = ? AND doomed = 0`, name))
}

// Doom dooms the names that were announced before the given time and that no batch has taken. It
// returns all doomed names.
func (l *Ledger) Doom(ctx context.Context, before time.Time) ([]string, error) {
	if _, err := l.db.ExecContext(ctx, `UPDATE ingest_incoming SET doomed = 1 WHERE doomed = 0 AND since < ?`, db.Millis(before)); err != nil {
		return nil, err
	}
	return db.Column[string](ctx, l.db, `SELECT name FROM ingest_incoming WHERE doomed = 1`)
}

// Forget strikes off a doomed name, whose objects are deleted.
func (l *Ledger) Forget(ctx context.Context, name string) error {
	_, err := l.db.ExecContext(ctx, `DELETE FROM ingest_incoming WHERE name = ? AND doomed = 1`, name)
	return err
}
