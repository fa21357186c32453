package files

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// TempSuffix is the suffix of files that WriteFile has not finished. After a crash they may be
// removed.
const TempSuffix = ".tmp"

// Disk performs the durable operations on a System.
type Disk struct{ System }

// WriteFile replaces the file at path by one with data. Readers see either the old content or the
// new one. Concurrent calls must not use the same path.
func (d Disk) WriteFile(path string, data []byte, perm fs.FileMode) error {
	return d.WriteWith(path, perm, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// WriteWith is WriteFile for what fill writes.
func (d Disk) WriteWith(path string, perm fs.FileMode, fill func(io.Writer) error) error {
	temp := path + TempSuffix
	f, err := d.Create(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	if err = fill(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = d.Remove(temp) // it may have filled the disk
		return fmt.Errorf("write %s: %w", path, err)
	}
	return d.Move(temp, path)
}

// Move renames a file or directory durably, within one file system.
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

// MakeDir creates a directory whose parent exists. The directory may exist already.
func (d Disk) MakeDir(path string, perm fs.FileMode) error {
	if err := d.Mkdir(path, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.SyncDir(filepath.Dir(path))
}

// Drop deletes a file, or a directory with everything in it. It may be gone already.
func (d Disk) Drop(path string) error {
	if err := d.RemoveAll(path); err != nil {
		return err
	}
	return d.SyncDir(filepath.Dir(path))
}

// The following functions perform the operations of Disk on this machine's file system.

// WriteFile replaces the file at path. The owner's group may read it.
func WriteFile(path string, data []byte) error { return Disk{Host{}}.WriteFile(path, data, 0o640) }

// WriteWith is WriteFile for what fill writes, through a buffer.
func WriteWith(path string, fill func(io.Writer) error) error {
	return Disk{Host{}}.WriteWith(path, 0o640, func(w io.Writer) error {
		b := bufio.NewWriterSize(w, 256<<10)
		if err := fill(b); err != nil {
			return err
		}
		return b.Flush()
	})
}

// WriteSecret replaces the file at path. Only its owner may read it.
func WriteSecret(path string, data []byte) error { return Disk{Host{}}.WriteFile(path, data, 0o600) }

// Create creates an empty file. If the file exists, a new one replaces it, and a process that still
// writes to the old one does not affect the new one.
func Create(path string) error { return WriteFile(path, nil) }

// Rename renames a file or directory durably, within one file system.
func Rename(from, to string) error { return Disk{Host{}}.Move(from, to) }

// Mkdir creates a directory whose parent exists. The directory may exist already.
func Mkdir(path string) error { return Disk{Host{}}.MakeDir(path, 0o750) }

// MkdirAll creates a directory and its missing parents, and makes them durable. An existing
// directory at path is made durable, too: the power may have failed before its creator synced it.
// Existing parents are assumed to be durable.
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
		info, err := os.Stat(path) // follows a symbolic link to a directory
		if err != nil || !info.IsDir() {
			return made
		}
	}
	err = SyncDir(filepath.Dir(path))
	if made != nil && errors.Is(err, fs.ErrPermission) {
		return nil // created by an administrator, in a directory of another owner
	}
	return err
}

// Remove deletes a file, or a directory with everything in it. It may be gone already.
func Remove(path string) error { return Disk{Host{}}.Drop(path) }

// SyncDir makes the entries of a directory durable.
func SyncDir(path string) error { return Host{}.SyncDir(path) }

// Boundary is called before and after each durable write, with the write's name and "before" or
// "after". A fault test stops the process in it. Nil does nothing.
type Boundary func(write, when string)

// Write performs one durable write between two calls of b.
func (b Boundary) Write(name string, write func() error) error {
	if b == nil {
		return write()
	}
	b(name, "before")
	err := write()
	b(name, "after")
	return err
}

// File is a file opened for writing.
type File interface {
	io.Writer
	Sync() error
	Close() error
}

// System has the operations of a file system that Disk needs. Only Sync and SyncDir make changes
// durable: a power failure may undo all other operations, in any order.
type System interface {
	Create(name string, flag int, perm fs.FileMode) (File, error) // as os.OpenFile
	Mkdir(name string, perm fs.FileMode) error
	Link(from, to string) error
	Rename(from, to string) error
	Remove(name string) error
	RemoveAll(name string) error
	SyncDir(name string) error
}

// Host is this machine's file system.
type Host struct{}

// Create implements System.
func (Host) Create(name string, flag int, perm fs.FileMode) (File, error) {
	return file(os.OpenFile(name, flag, perm))
}

// Mkdir implements System.
func (Host) Mkdir(name string, perm fs.FileMode) error { return os.Mkdir(name, perm) }

// Link implements System.
func (Host) Link(from, to string) error { return os.Link(from, to) }

// Rename implements System.
func (Host) Rename(from, to string) error { return os.Rename(from, to) }

// Remove implements System.
func (Host) Remove(name string) error { return os.Remove(name) }

// RemoveAll implements System.
func (Host) RemoveAll(name string) error { return os.RemoveAll(name) }

// SyncDir implements System.
func (Host) SyncDir(name string) error { return syncDir(os.Open(name)) }

// Root is a System of the files below a directory. Symbolic links do not lead out of the directory.
type Root struct{ *os.Root }

// Create implements System.
func (r Root) Create(name string, flag int, perm fs.FileMode) (File, error) {
	return file(r.OpenFile(name, flag, perm))
}

// SyncDir implements System.
func (r Root) SyncDir(name string) error { return syncDir(r.Open(name)) }

// file returns a nil File with an error, rather than a File that holds a nil *os.File.
func file(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

func syncDir(d *os.File, err error) error {
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Nameless creates an empty file without a name in dir, or in the system's directory for temporary
// files if dir is empty.
func Nameless(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "sheaf-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
