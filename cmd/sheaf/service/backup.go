package service

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/db"
	"sheaf/internal/files"
	"sheaf/internal/operators"
	"sheaf/internal/route"
	"sheaf/internal/servicekey"
)

// A backup is a tar.gz of the control state: tables/<name>.jsonl as db.Dump writes them,
// receipt.key, operator.token and, at the end, backup.json, which lists all other entries with
// their digests. After rotations, the key that signs and the next key are in receipt-<number>.key.
// A backup without backup.json was cut off. A backup contains secrets.

const (
	backupFormat  = 1
	backupEnd     = "backup.json"
	backupTables  = "tables/"
	tableSuffix   = ".jsonl"
	maxBackupName = 200
)

// Backup is the content of backup.json, the last entry of a backup.
type Backup struct {
	Format  int               `json:"format"`
	Made    time.Time         `json:"made"`
	Program string            `json:"program"` // its version
	Schema  int64             `json:"schema"`  // version of the tables
	SHA256  map[string]string `json:"sha256"`  // of every other entry, by its name
}

// backupWriter writes the entries of a backup. Each entry goes to a temporary file first, because a
// tar header contains the size.
type backupWriter struct {
	dir    string
	tar    *tar.Writer
	backup Backup

	name string // name of the entry that is being written; empty: none
	file *os.File
	sum  hash.Hash
}

// writeBackup writes a backup of the control database and of the keys in the data directory.
func writeBackup(ctx context.Context, control *sql.DB, cfg *Config, w io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "sheaf-backup-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	z := gzip.NewWriter(w)
	b := &backupWriter{dir: dir, tar: tar.NewWriter(z), backup: Backup{
		Format: backupFormat, Made: time.Now().UTC().Truncate(time.Second), Program: Version(), SHA256: map[string]string{},
	}}
	keys := make(map[string][]byte) // read before and after the tables, because the keys may be rotated meanwhile
	if err := collectKeys(ctx, control, cfg, keys); err != nil {
		return err
	}
	b.backup.Schema, err = db.Dump(ctx, control, func(table string) (io.Writer, error) { return b.next(backupTables + table + tableSuffix) })
	if err != nil {
		return err
	}
	if err := collectKeys(ctx, control, cfg, keys); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if err := b.add(name, keys[name]); err != nil {
			return err
		}
	}
	end, err := json.MarshalIndent(b.backup, "", "  ")
	if err != nil {
		return err
	}
	if err := b.add(backupEnd, append(end, '\n')); err != nil {
		return err
	}
	return errors.Join(b.tar.Close(), z.Close())
}

// collectKeys adds to keys the operators' token and the key files that a service needs now.
func collectKeys(ctx context.Context, control *sql.DB, cfg *Config, keys map[string][]byte) error {
	names := []string{tokenFile}
	list, err := servicekey.List(ctx, control)
	if err != nil {
		return err
	}
	files := &keyFiles{secretFiles{control, *cfg}}
	for _, k := range slices.Backward(list) {
		if _, err := files.Load(ctx, k.Number, k.Public); err != nil { // another process may have made the key
			return fmt.Errorf("the service's key %d: %w", k.Number, err)
		}
		names = append(names, keyFile(k.Number))
		if k.Signs {
			break
		}
	}
	for _, name := range names {
		if keys[name], err = os.ReadFile(filepath.Join(cfg.Data, name)); err != nil {
			return err
		}
	}
	return nil
}

// add writes an entry whose content is in memory.
func (b *backupWriter) add(name string, text []byte) error {
	w, err := b.next(name)
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	return b.flush()
}

// next ends the current entry, if there is one, and begins another.
func (b *backupWriter) next(name string) (io.Writer, error) {
	if err := b.flush(); err != nil {
		return nil, err
	}
	f, err := files.Nameless(b.dir)
	if err != nil {
		return nil, err
	}
	b.name, b.file, b.sum = name, f, sha256.New()
	return io.MultiWriter(f, b.sum), nil
}

func (b *backupWriter) flush() (err error) {
	if b.name == "" {
		return nil
	}
	defer func() { err = errors.Join(err, b.file.Close()) }()
	name := b.name
	b.name = ""
	size, err := b.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if name != backupEnd {
		b.backup.SHA256[name] = hex.EncodeToString(b.sum.Sum(nil))
	}
	if err := b.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: b.backup.Made}); err != nil {
		return err
	}
	_, err = io.Copy(b.tar, io.NewSectionReader(b.file, 0, size))
	return err
}

// SaveState answers with a backup.
var SaveState = route.New[route.None, route.None]("GET", api.PathAdminBackup, operators.Admin, audit.Backup, "The control state, packed").Answering(http.StatusOK, "").Sends("application/gzip")

// serveBackup sends a backup. If it fails on the way, the answer is cut off.
func serveBackup(control *sql.DB, cfg *Config, log *slog.Logger) route.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Type", "application/gzip")
		w.Header().Set("Cache-Control", "no-store")
		if err := writeBackup(r.Context(), control, cfg, w); err != nil {
			log.ErrorContext(r.Context(), "a backup failed", "err", err)
			panic(http.ErrAbortHandler) // closes the connection, because a part of the answer has been sent
		}
		return nil
	}
}

// UnpackBackup unpacks a backup into a directory. It fails unless the backup is complete and
// undamaged.
func UnpackBackup(r io.Reader, dir string) (*Backup, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("not a backup: %w", err)
	}
	found := map[string]string{}
	var end *Backup
	for entries := tar.NewReader(z); ; {
		h, err := entries.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("the backup is damaged: %w", err)
		}
		if !filepath.IsLocal(h.Name) || len(h.Name) > maxBackupName || h.Typeflag != tar.TypeReg || end != nil {
			return nil, fmt.Errorf("not a backup: it has an entry %q", h.Name)
		}
		if found[h.Name], err = unpack(entries, filepath.Join(dir, h.Name)); err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name, err)
		}
		if h.Name == backupEnd {
			delete(found, backupEnd)
			text, err := os.ReadFile(filepath.Join(dir, backupEnd))
			if err != nil {
				return nil, err
			}
			if err := json.Unmarshal(text, &end); err != nil {
				return nil, fmt.Errorf("%s: %w", backupEnd, err)
			}
		}
	}
	switch {
	case end == nil:
		return nil, fmt.Errorf("the backup is cut off: it has no %s", backupEnd)
	case end.Format != backupFormat:
		return nil, fmt.Errorf("the backup is of format %d, this program reads %d", end.Format, backupFormat)
	case len(found) != len(end.SHA256):
		return nil, fmt.Errorf("the backup has %d entries of %d", len(found), len(end.SHA256))
	}
	for name, sum := range end.SHA256 {
		if found[name] != sum {
			return nil, fmt.Errorf("the backup is damaged: %s has the SHA-256 %q, want %s", name, found[name], sum)
		}
	}
	return end, nil
}

// unpack writes an entry to a new file and returns its SHA-256 in hexadecimal.
func unpack(r io.Reader, path string) (sum string, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(f, h), r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

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
