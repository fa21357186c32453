// Package powerloss computes what a disk may hold after a power failure, for tests.
//
// A Recorder is a file system that performs and records a program's operations. States then yields,
// for a power failure after any number of operations, states in which the disk may be found. All
// synced changes are there; any other change may be missing. Journaling file systems lose less.
// POSIX allows all of these losses. It also allows a loss that States leaves out: that of a file
// during its rename.
//
//   - Unsynced bytes of a file may be missing, all of them or the second half, or may be zeros.
//   - A change of a directory's entry may be lost, independently of other changes, unless the
//     directory was synced. Changes of the same name are lost in reverse order.
//   - Syncing a file does not sync its name; syncing a directory does not sync the files in it.
package powerloss

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"sheaf/internal/files"
)

// Recorder is a files.System that records operations below Base. Base is empty if names are
// relative. A Recorder may be used concurrently; it performs one operation at a time.
type Recorder struct {
	files.System
	Base string

	mu  sync.Mutex // guards all below; held during an operation
	ops []operation
}

// operation applies a recorded operation to a disk.
type operation func(d *disk)

// Len returns the number of operations recorded so far. What the program has acknowledged before
// the call must survive a power failure after that many operations.
func (r *Recorder) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ops)
}

// do performs an operation, and records it if it succeeds.
func (r *Recorder) do(op func() error, note operation) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := op(); err != nil {
		return err
	}
	r.ops = append(r.ops, note)
	return nil
}

func (r *Recorder) name(path string) string {
	if r.Base == "" {
		return filepath.Clean(path)
	}
	name, err := filepath.Rel(r.Base, path)
	if err != nil {
		panic(err) // the test uses a path outside its own directory
	}
	return name
}

// Mkdir implements files.System.
func (r *Recorder) Mkdir(path string, perm fs.FileMode) error {
	return r.do(func() error { return r.System.Mkdir(path, perm) }, func(d *disk) { d.add(r.name(path), newDir()) })
}

// Link implements files.System.
func (r *Recorder) Link(from, to string) error {
	return r.do(func() error { return r.System.Link(from, to) }, func(d *disk) { d.add(r.name(to), d.find(r.name(from))) })
}

// Rename implements files.System.
func (r *Recorder) Rename(from, to string) error {
	return r.do(func() error { return r.System.Rename(from, to) }, func(d *disk) { d.move(r.name(from), r.name(to)) })
}

// Remove implements files.System.
func (r *Recorder) Remove(path string) error {
	return r.do(func() error { return r.System.Remove(path) }, func(d *disk) { d.remove(r.name(path)) })
}

// RemoveAll implements files.System. It removes the content of a directory first, in any order.
func (r *Recorder) RemoveAll(path string) error {
	return r.do(func() error { return r.System.RemoveAll(path) }, func(d *disk) { d.removeAll(r.name(path)) })
}

// SyncDir implements files.System.
func (r *Recorder) SyncDir(path string) error {
	return r.do(func() error { return r.System.SyncDir(path) }, func(d *disk) { d.find(r.name(path)).syncDir() })
}

// Create implements files.System.
func (r *Recorder) Create(path string, flag int, perm fs.FileMode) (files.File, error) {
	var f files.File
	w := &file{recorder: r, name: r.name(path)}
	err := r.do(func() (err error) {
		f, err = r.System.Create(path, flag, perm)
		return err
	}, func(d *disk) {
		if d.find(w.name) == nil {
			d.add(w.name, &node{})
		} else if flag&os.O_TRUNC != 0 {
			d.find(w.name).truncate()
		}
		d.open[w] = d.find(w.name)
	})
	w.File = f
	if err != nil {
		return nil, err
	}
	return w, nil
}

// file is a File that records each write and each sync.
type file struct {
	files.File
	recorder *Recorder
	name     string
}

// Write implements files.File.
func (f *file) Write(p []byte) (n int, err error) {
	data := append([]byte(nil), p...)
	err = f.recorder.do(func() error {
		n, err = f.File.Write(p)
		return err
	}, func(d *disk) { d.open[f].write(data[:n]) })
	return n, err
}

// Sync implements files.File.
func (f *file) Sync() error {
	return f.recorder.do(f.File.Sync, func(d *disk) { d.open[f].sync() })
}
