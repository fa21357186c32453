// Package durable has the file operations that ingest acknowledges on: each is
// on disk, directory entry included, when it returns nil. Each may be done
// again after a crash at any point of it.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// TempSuffix ends the names of files that WriteFile has not finished. After a
// crash they may be removed.
const TempSuffix = ".tmp"

// WriteFile replaces the file at path with data: readers see the old content or
// the new, never a part. Calls for one path must not overlap.
func WriteFile(path string, data []byte) error {
	temp := path + TempSuffix
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(temp) // it may be what has filled the disk
		return fmt.Errorf("write %s: %w", path, err)
	}
	return Rename(temp, path)
}

// Create makes an empty file, or empties the one there is by putting a new one
// in its place: who still writes to the old one does so unseen.
func Create(path string) error { return WriteFile(path, nil) }

// Rename moves a file or directory within one file system.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if err := SyncDir(filepath.Dir(to)); err != nil {
		return err
	}
	if filepath.Dir(from) == filepath.Dir(to) {
		return nil
	}
	return SyncDir(filepath.Dir(from))
}

// Mkdir makes a directory in one that exists; it may be there already.
func Mkdir(path string) error {
	if err := os.Mkdir(path, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Remove deletes a file or a whole directory; it may be gone already.
func Remove(path string) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes the entries of a directory durable.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
