package inbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/db"
)

// Stage stores catalog entries of b's present attempt, all or none. It fails with ErrLost if
// another worker has claimed b.
func (l *Ledger) Stage(ctx context.Context, b *Batch, entries []catalog.SegmentEntry) error {
	return db.Transact(ctx, l.db, nil, func(tx *sql.Tx) error {
		for _, e := range entries {
			data, err := json.Marshal(e)
			if err != nil {
				return err
			}
			err = db.Change(ctx, tx, ErrLost, `INSERT INTO ingest_lines (id, host, attempt, line)
				SELECT id, ?, attempt, ? FROM ingest_batches WHERE id = ? AND token = ? AND state = 'pre-split'`, e.Host, string(data), b.ID, b.token)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// errStopped ends the reading of staged entries.
var errStopped = errors.New("the reader wants no more entries")

// Entries yields the batches' staged entries, batch by batch, each in the order of its hosts'
// names. An error is the last value.
func (l *Ledger) Entries(ctx context.Context, batches []*Batch) iter.Seq2[catalog.SegmentEntry, error] {
	return func(yield func(catalog.SegmentEntry, error) bool) {
		for _, b := range batches {
			err := db.Each(ctx, l.db, func(rows *sql.Rows) error {
				var data []byte
				var e catalog.SegmentEntry
				if err := rows.Scan(&data); err != nil {
					return err
				}
				if err := json.Unmarshal(data, &e); err != nil {
					return fmt.Errorf("staged entry of batch %s: %w", b.ID, err)
				}
				if !yield(e, nil) {
					return errStopped
				}
				return nil
			}, `SELECT line FROM ingest_lines WHERE id = ? ORDER BY host`, b.ID)
			if err != nil {
				if !errors.Is(err, errStopped) {
					yield(catalog.SegmentEntry{}, err)
				}
				return
			}
		}
	}
}

// Copied returns the hosts that several robots collect in full, so that their copies can be
// compared. The table of hosts is the manager's. The query's second condition lets it use that
// table's index.
func (l *Ledger) Copied(ctx context.Context) (map[string]bool, error) {
	names, err := db.Column[string](ctx, l.db, `SELECT name FROM hosts WHERE copies > 1 AND (copies > 1 OR parts > 1)`)
	if err != nil {
		return nil, fmt.Errorf("hosts with copies: %w", err)
	}
	hosts := make(map[string]bool, len(names))
	for _, name := range names {
		hosts[name] = true
	}
	return hosts, nil
}

// AddCopy stores the digests of a host's pages, new and unchanged, from one robot's visit. It
// leaves out truncated pages.
func (l *Ledger) AddCopy(ctx context.Context, robot, host string, cells []archive.Cell, now time.Time) error {
	return db.Transact(ctx, l.db, nil, func(tx *sql.Tx) error {
		for _, c := range cells {
			if c.Kind != archive.Page && c.Kind != archive.Revisit || c.Digest == "" || c.Truncated != "" {
				continue
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO copies (host, url, robot, at, digest, added) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
				host, c.URL, robot, db.Millis(c.Time), c.Digest, db.Millis(now))
			if err != nil {
				return err
			}
		}
		return nil
	})
}
