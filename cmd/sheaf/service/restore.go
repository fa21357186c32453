package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sheaf/internal/db"
	"sheaf/internal/durable"
)

// Restored tells what Restore did.
type Restored struct {
	Backup
	Tables  int   `json:"tables"`
	Dropped int64 `json:"dropped"` // batches under way, which their robots bring again
}

// Restore puts a backup into an installation that is new: its database is empty, and its data
// directory has no other keys. Batches that were under way are left out: their files lie in no
// backup, and a robot keeps each batch until it is published. What the catalog has published
// since is found there when a robot brings it again.
func Restore(ctx context.Context, cfg Config, r io.Reader) (_ *Restored, err error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sheaf-restore-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b, err := UnpackBackup(r, dir)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	if err := durable.MkdirAll(cfg.Data, 0o700); err != nil {
		return nil, fmt.Errorf("settings: data: %w", err)
	}
	keys := []string{receiptKeyFile, tokenFile}
	for _, name := range keys {
		if err := sameOrNone(filepath.Join(cfg.Data, name), filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("restore: settings: data: %q: %w", cfg.Data, err)
		}
	}
	var tables []string
	for name := range b.SHA256 {
		if table, ok := strings.CutPrefix(name, backupTables); ok {
			tables = append(tables, strings.TrimSuffix(table, tableSuffix))
		}
	}
	err = db.Fill(ctx, cfg.database(), b.Schema, tables, func(table string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(dir, backupTables, table+tableSuffix))
	})
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	restored := &Restored{Backup: *b, Tables: len(tables)}
	if restored.Dropped, err = dropUnderWay(ctx, cfg.database()); err != nil {
		return nil, fmt.Errorf("restore: batches under way: %w", err)
	}
	for _, name := range keys { // last: a start before would have made others
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("restore: %w", err)
		}
		if err := durable.WriteSecret(filepath.Join(cfg.Data, name), text); err != nil {
			return nil, fmt.Errorf("restore: %w", err)
		}
	}
	return restored, nil
}

// sameOrNone fails where a file is there that differs from the backup's.
func sameOrNone(there, backup string) error {
	have, err := os.ReadFile(there)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	want, err := os.ReadFile(backup)
	if err != nil {
		return err
	}
	if !bytes.Equal(have, want) {
		return fmt.Errorf("%s is there already and is another: a backup goes into a new data directory", filepath.Base(there))
	}
	return nil
}

// dropUnderWay deletes the rows of batches that were not published, and what their splits had staged.
func dropUnderWay(ctx context.Context, source string) (n int64, err error) {
	d, err := db.Open(ctx, source)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	tx, err := d.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // does nothing after Commit
	if _, err := tx.ExecContext(ctx, `DELETE FROM ingest_lines`); err != nil {
		return 0, err
	}
	res, err := tx.ExecContext(ctx, `DELETE FROM ingest_batches WHERE state IN ('received', 'pre-split', 'post-split')`)
	if err != nil {
		return 0, err
	}
	if n, err = res.RowsAffected(); err != nil {
		return 0, err
	}
	return n, tx.Commit()
}
