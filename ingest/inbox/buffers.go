package inbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sheaf/internal/files"
	"sheaf/internal/wire"
)

// Dir is the directory of the buffers. All of it lies on one file system, so that every move is a
// rename:
//
//	batches/<id>/batch.tar.gz     from acceptance until collection
//	batches/<id>/manifest         as the robot signed it
//	quarantine/<id>/…             the same two and reason.json
//	converting/…                  foreign files that are being converted to batches
//	processes/<name>              each locked by the process that runs under this name
//	accepting-0 …, deciding       locked by the process that accepts some of the batches, or decides
//
// Batches whose files lie in the store have no files here; see Env.
//
// The state of a batch is in the ledger. Every method that changes files can be repeated after a
// crash, and its changes are durable when it returns.
type Dir string

func (d Dir) path(parts ...string) string {
	return filepath.Join(append([]string{string(d)}, parts...)...)
}

func (d Dir) batch(id string) string { return d.path("batches", id) }

func (d Dir) manifest(id string) string { return filepath.Join(d.batch(id), "manifest") }

// Quarantine returns the folder of a batch in the quarantine.
func (d Dir) Quarantine(id string) string { return d.path("quarantine", id) }

// File returns the path of the file of a batch that is not in the quarantine.
func (d Dir) File(id string) string { return filepath.Join(d.batch(id), "batch.tar.gz") }

// Converting returns the directory for temporary files of conversions.
func (d Dir) Converting() string { return d.path("converting") }

// Processes returns the directory for lease.Appear.
func (d Dir) Processes() string { return d.path("processes") }

// Lock opens the file of a lock between processes. The caller locks it.
func (d Dir) Lock(name string) (*os.File, error) {
	return os.OpenFile(d.path(name), os.O_RDWR|os.O_CREATE, 0o640)
}

// staleConversion is the age at which temporary files of a conversion are deleted. Younger files
// may belong to another process.
const staleConversion = 24 * time.Hour

// Prepare creates the directories, and deletes stale files of conversions whose process was killed.
func (d Dir) Prepare(now time.Time) error {
	if err := files.MkdirAll(string(d), 0o750); err != nil {
		return err
	}
	for _, dir := range []string{"batches", "quarantine", "processes", "converting"} {
		if err := files.Mkdir(d.path(dir)); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(d.Converting())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || now.Sub(info.ModTime()) < staleConversion {
			continue
		}
		if err := os.RemoveAll(filepath.Join(d.Converting(), e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Place moves the batch file at path to its final name and writes the manifest beside it, unless
// signed is nil. The file comes last: if it is there, so is the manifest.
func (d Dir) Place(id, path string, signed []byte) error {
	if err := files.Mkdir(d.batch(id)); err != nil {
		return err
	}
	if signed != nil {
		if err := files.WriteFile(d.manifest(id), signed); err != nil {
			return err
		}
	}
	if path == d.File(id) {
		return nil // an interrupted attempt has placed it
	}
	return files.Rename(path, d.File(id))
}

// Placed returns the names of the batches' folders outside the quarantine.
func (d Dir) Placed() ([]string, error) {
	entries, err := os.ReadDir(d.batch(""))
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	return ids, nil
}

// Manifest reads the manifest of a batch. Its signature was checked when the batch was accepted.
func (d Dir) Manifest(id string) (m *wire.Manifest, signed []byte, err error) {
	signed, err = os.ReadFile(d.manifest(id))
	if errors.Is(err, fs.ErrNotExist) {
		signed, err = os.ReadFile(filepath.Join(d.Quarantine(id), "manifest"))
	}
	if err != nil {
		return nil, nil, err
	}
	m, err = wire.PeekManifest(signed)
	return m, signed, err
}

// Why is the content of reason.json.
type Why struct {
	Batch  wire.BatchID `json:"batch"`
	Reason wire.Reason  `json:"reason"`
	Detail string       `json:"detail"`
}

// MoveAside moves a batch to the quarantine, with the reason.
func (d Dir) MoveAside(id string, w Why) error {
	if _, err := os.Stat(d.batch(id)); errors.Is(err, fs.ErrNotExist) {
		return nil // moved already
	}
	data, err := json.MarshalIndent(w, "", "  ")
	if err != nil {
		return err
	}
	if err := files.WriteFile(filepath.Join(d.batch(id), "reason.json"), append(data, '\n')); err != nil {
		return err
	}
	if err := files.Rename(d.batch(id), d.Quarantine(id)); err != nil {
		return fmt.Errorf("move batch %s to the quarantine: %w", id, err)
	}
	return nil
}

// Replace puts the file at path in place of the file of a quarantined batch. It also replaces the
// manifest, unless signed is nil.
func (d Dir) Replace(id, path string, signed []byte) error {
	if signed != nil {
		if err := files.WriteFile(filepath.Join(d.Quarantine(id), "manifest"), signed); err != nil {
			return err
		}
	}
	return files.Rename(path, filepath.Join(d.Quarantine(id), "batch.tar.gz"))
}

// Restore moves a batch back from the quarantine.
func (d Dir) Restore(id string) error {
	if _, err := os.Stat(d.batch(id)); err == nil {
		return nil
	}
	return files.Rename(d.Quarantine(id), d.batch(id))
}

// Erase deletes the file of a batch in the quarantine. Manifest and reason stay.
func (d Dir) Erase(id string) error {
	err := files.Remove(filepath.Join(d.Quarantine(id), "batch.tar.gz"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Drop deletes the folder of a batch outside the quarantine.
func (d Dir) Drop(id string) error { return files.Remove(d.batch(id)) }

// Sweep deletes the temporary files of interrupted writes in a batch's folder. Another process may
// be deleting the folder at the same time.
func (d Dir) Sweep(id string) error {
	entries, err := os.ReadDir(d.batch(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), files.TempSuffix) {
			if err := files.Remove(filepath.Join(d.batch(id), e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// TreeSize returns the length, in bytes, of the file at path, or -1 if there is no file.
func TreeSize(path string) (int64, error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return -1, nil
	case err != nil:
		return 0, err
	}
	return st.Size(), nil
}
