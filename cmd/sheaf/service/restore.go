package service

import (
	"bytes"
	"context"
	"database/sql"
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
	lock, err := lockData(cfg)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	for _, name := range []string{receiptKeyFile, tokenFile} { // first: they may be put there again, the tables not
		if err := putKey(cfg.Data, dir, name); err != nil {
			return nil, fmt.Errorf("restore: settings: data: %q: %w", cfg.Data, err)
		}
	}
	var tables []string
	for name := range b.SHA256 {
		if table, ok := strings.CutPrefix(name, backupTables); ok {
			tables = append(tables, strings.TrimSuffix(table, tableSuffix))
		}
	}
	restored := &Restored{Backup: *b, Tables: len(tables)}
	err = db.Fill(ctx, cfg.database(), b.Schema, tables, func(table string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(dir, backupTables, table+tableSuffix))
	}, restored.dropUnderWay)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	return restored, nil
}

// putKey copies a key out of the backup, unless another one is there.
func putKey(data, backup, name string) error {
	want, err := os.ReadFile(filepath.Join(backup, name))
	if err != nil {
		return err
	}
	have, err := os.ReadFile(filepath.Join(data, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return durable.WriteSecret(filepath.Join(data, name), want)
	case err != nil:
		return err
	case !bytes.Equal(have, want):
		return fmt.Errorf("%s is there already and is another: a backup goes into a new data directory", name)
	}
	return nil
}

// dropUnderWay deletes the rows of batches that were not published, and what their splits had
// staged.
func (r *Restored) dropUnderWay(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM ingest_lines`); err != nil {
		return err
	}
	dropped, err := db.Exec(ctx, tx, `DELETE FROM ingest_batches WHERE state IN ('received', 'pre-split', 'post-split')`)
	r.Dropped = dropped
	return err
}
