package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

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
