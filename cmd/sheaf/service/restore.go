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
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/audit"
	"sheaf/internal/db"
	"sheaf/internal/files"
)

// Restored says what Restore has restored, and from which backup.
type Restored struct {
	Backup
	Tables  int   `json:"tables"`
	Dropped int64 `json:"dropped"` // number of unpublished batches, which their robots upload again
}

// NotInCatalog says which rights a restored backup may give again although they were withdrawn
// after it was made.
const NotInCatalog = `The service finds in the store what was taken down, hidden by access rules, suspended or left out for its owner since then. Look
yourself at what else was changed: passwords, tokens, domains and terms of accounts; accounts and operators that were deleted; roles of
operators; robots that were revoked; hosts that were removed by hand (sheaf host rm). They are as they were in the backup.`

// Restore restores a backup into a new installation: its database must be empty, and its data
// directory must not have other keys. Unpublished batches are left out, because their files are not
// in the backup. Their robots keep them until they are published. If a batch was published after
// the backup was made, the service finds it in the catalog when the robot uploads it again.
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
	if err := files.MkdirAll(cfg.Data, 0o700); err != nil {
		return nil, fmt.Errorf("settings: data: %w", err)
	}
	lock, err := lockData(cfg)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	for _, name := range b.keys() { // first, because this can be repeated, and filling the tables cannot
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
	}, func(ctx context.Context, tx *sql.Tx) error {
		if err := restored.dropUnderWay(ctx, tx); err != nil {
			return err
		}
		_, err := audit.Insert(ctx, tx, restored.row())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	return restored, nil
}

// keyName matches the names of key files in a backup.
var keyName = regexp.MustCompile(`^(receipt(-[0-9]+)?\.key|operator\.token)$`)

// keys returns the names of the backup's key files.
func (b *Backup) keys() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for name := range b.SHA256 {
			if keyName.MatchString(name) && !yield(name) {
				return
			}
		}
	})
}

// row returns the audit log's row for the restore. Its actor is the user of this machine.
func (r *Restored) row() audit.Row {
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return audit.Row{Kind: audit.Command, Name: name, Act: audit.Restore, Object: "backup of " + r.Made.UTC().Format(time.RFC3339), Outcome: audit.OK}
}

// putKey copies a key from the backup. It fails if the directory has another key of this name.
func putKey(data, backup, name string) error {
	want, err := os.ReadFile(filepath.Join(backup, name))
	if err != nil {
		return err
	}
	have, err := os.ReadFile(filepath.Join(data, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return files.WriteSecret(filepath.Join(data, name), want)
	case err != nil:
		return err
	case !bytes.Equal(have, want):
		return fmt.Errorf("%s is there already, and is another one: a backup goes into a new data directory", name)
	}
	return nil
}

// dropUnderWay deletes the rows of unpublished batches, and their staged entries.
func (r *Restored) dropUnderWay(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM ingest_lines`); err != nil {
		return err
	}
	dropped, err := db.Exec(ctx, tx, `DELETE FROM ingest_batches WHERE state IN ('received', 'pre-split', 'post-split')`)
	r.Dropped = dropped
	return err
}
