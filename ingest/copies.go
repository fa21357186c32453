package ingest

import (
	"context"
	"database/sql"
	"fmt"
	"io"

	"sheaf/archive"
	"sheaf/internal/db"
	"sheaf/internal/wire"
)

// noteCopies enters what the batch brings of hosts that the manager has given to several robots, so that it
// can compare what they bring: for each page the digest of what was there, and when. Of other hosts it enters nothing, and
// where there are none such it costs one query. It may be done again.
func (i *Ingest) noteCopies(ctx context.Context, b *Batch, m *wire.Manifest, left leftOut, file io.ReaderAt) error {
	wanted, err := i.ledger.copied(ctx)
	if err != nil || len(wanted) == 0 {
		return err
	}
	for _, h := range m.Hosts {
		if !wanted[h.Name] || left.has(h.Name) {
			continue
		}
		index, err := archive.ReadIndex(ctx, archive.FileSource(file, h.Offset), h.Length)
		if err != nil {
			return fmt.Errorf("%s: its index, to compare copies: %w", h.Name, err)
		}
		if err := i.ledger.noteCopy(ctx, b.Robot, h.Name, index.Cells, db.Millis(i.opt.Now())); err != nil {
			return fmt.Errorf("%s: copies: %w", h.Name, err)
		}
	}
	return nil
}

// copied gives the hosts of which several robots bring copies.
func (l *ledger) copied(ctx context.Context) (map[string]bool, error) {
	rows, err := l.db.QueryContext(ctx, `SELECT name FROM hosts WHERE copies > 1 AND (copies > 1 OR parts > 1)`)
	if err != nil {
		return nil, fmt.Errorf("hosts with copies: %w", err)
	}
	defer rows.Close()
	names := map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names[name] = true
	}
	return names, rows.Err()
}

// noteCopy enters a host's pages, whole ones and those that were found unchanged.
func (l *ledger) noteCopy(ctx context.Context, robot, host string, cells []archive.Cell, now int64) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	var put *sql.Stmt
	if put, err = tx.PrepareContext(ctx, `INSERT INTO copies (host, url, robot, at, digest, added) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`); err != nil {
		return err
	}
	defer put.Close()
	for _, c := range cells {
		if c.Kind != archive.Page && c.Kind != archive.Revisit || c.Digest == "" || c.Truncated != "" {
			continue
		}
		if _, err := put.ExecContext(ctx, host, c.URL, robot, db.Millis(c.Time), c.Digest, now); err != nil {
			return err
		}
	}
	return tx.Commit()
}
