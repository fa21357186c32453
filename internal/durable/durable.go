// Package durable has the file operations that are acknowledged on: each is on
// disk, directory entry included, when it returns nil. Each may be done again
// after a crash at any point of it.
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

// Disk does the operations on a System.
type Disk struct{ System }

// WriteFile replaces the file at path with data: readers see the old content or
// the new, never a part. Calls for one path must not overlap.
func (d Disk) WriteFile(path string, data []byte, perm fs.FileMode) error {
	temp := path + TempSuffix
	f, err := d.Create(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = d.Remove(temp) // it may be what has filled the disk
		return fmt.Errorf("write %s: %w", path, err)
	}
	return d.Move(temp, path)
}

// Move renames a file or directory within one file system.
func (d Disk) Move(from, to string) error {
	if err := d.Rename(from, to); err != nil {
		return err
	}
	if err := d.SyncDir(filepath.Dir(to)); err != nil {
		return err
	}
	if filepath.Dir(from) == filepath.Dir(to) {
		return nil
	}
	return d.SyncDir(filepath.Dir(from))
}

// MakeDir makes a directory in one that exists; it may be there already.
func (d Disk) MakeDir(path string, perm fs.FileMode) error {
	if err := d.Mkdir(path, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.SyncDir(filepath.Dir(path))
}

// Drop deletes a file or a whole directory; it may be gone already.
func (d Disk) Drop(path string) error {
	if err := d.RemoveAll(path); err != nil {
		return err
	}
	return d.SyncDir(filepath.Dir(path))
}

// What follows does the same on the machine's file system.

// WriteFile replaces the file at path, which its owner's group may read.
func WriteFile(path string, data []byte) error { return Disk{Host{}}.WriteFile(path, data, 0o640) }

// WriteSecret replaces the file at path, which only its owner may read.
func WriteSecret(path string, data []byte) error { return Disk{Host{}}.WriteFile(path, data, 0o600) }

// Create makes an empty file, or empties the one there is by putting a new one
// in its place: who still writes to the old one does so unseen.
func Create(path string) error { return WriteFile(path, nil) }

// Rename moves a file or directory within one file system.
func Rename(from, to string) error { return Disk{Host{}}.Move(from, to) }

// Mkdir makes a directory in one that exists; it may be there already.
func Mkdir(path string) error { return Disk{Host{}}.MakeDir(path, 0o750) }

// MkdirAll makes a directory and those above it that are missing. Those that are
// there are taken to be durable, but for the directory itself: whoever made it may
// have lost power before saying so.
func MkdirAll(path string, perm fs.FileMode) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if parent := filepath.Dir(path); parent != path {
		if _, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) {
			if err := MkdirAll(parent, perm); err != nil {
				return err
			}
		}
	}
	made := os.Mkdir(path, perm)
	if made != nil {
		info, err := os.Stat(path) // a link to a directory is one
		if err != nil || !info.IsDir() {
			return made
		}
	}
	err = SyncDir(filepath.Dir(path))
	if made != nil && errors.Is(err, fs.ErrPermission) {
		return nil // one that an administrator made, in a directory of his own
	}
	return err
}

// Remove deletes a file or a whole directory; it may be gone already.
func Remove(path string) error { return Disk{Host{}}.Drop(path) }

// SyncDir makes the entries of a directory durable.
func SyncDir(path string) error { return Host{}.SyncDir(path) }
