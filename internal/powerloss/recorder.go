// Package powerloss tells tests what a disk may hold after a loss of power.
//
// A Recorder stands between a program and the file system, does all that it is
// asked to, and notes it. A Log then gives, for a loss of power after any of the
// noted operations, states in which the disk may be found: what was synced is
// there, and of all else any part may be there or not. That is more than file systems
// with a journal lose, and all that POSIX allows to be lost, but for one thing: a
// rename never loses the file that it moves.
//
//   - The bytes of a file that were not synced may be missing, all or the later half,
//     or be zeros.
//   - The entry that a directory got or lost is there or not, each on its own, unless the
//     directory was synced; entries of one name come and go in their order.
//   - Syncing a file does not save its name, nor syncing a directory the files in it.
package powerloss

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"sheaf/internal/durable"
)

// Recorder is a durable.System that notes what is done below Base, which is empty
// where names are relative already. It may be used by many goroutines at once:
// operations are done one after another.
type Recorder struct {
	durable.System
	Base string

	mu  sync.Mutex // guards all below, and is held while an operation is done
	ops []operation
}

// operation changes the tree of a disk.
type operation func(d *disk)

// Len is how many operations were noted so far. What was acknowledged before it
// was called must survive a loss of power after as many operations.
func (r *Recorder) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ops)
}

// do does an operation, and notes it unless it failed.
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
		panic(err) // a test that works outside its own directory
	}
	return name
}

// Mkdir implements durable.System.
func (r *Recorder) Mkdir(path string, perm fs.FileMode) error {
	return r.do(func() error { return r.System.Mkdir(path, perm) }, func(d *disk) { d.add(r.name(path), newDir()) })
}

// Link implements durable.System.
func (r *Recorder) Link(from, to string) error {
	return r.do(func() error { return r.System.Link(from, to) }, func(d *disk) { d.add(r.name(to), d.find(r.name(from))) })
}

// Rename implements durable.System.
func (r *Recorder) Rename(from, to string) error {
	return r.do(func() error { return r.System.Rename(from, to) }, func(d *disk) { d.move(r.name(from), r.name(to)) })
}

// Remove implements durable.System.
func (r *Recorder) Remove(path string) error {
	return r.do(func() error { return r.System.Remove(path) }, func(d *disk) { d.remove(r.name(path)) })
}

// RemoveAll implements durable.System. It removes what is in a directory first, in some order.
func (r *Recorder) RemoveAll(path string) error {
	return r.do(func() error { return r.System.RemoveAll(path) }, func(d *disk) { d.removeAll(r.name(path)) })
}

// SyncDir implements durable.System.
func (r *Recorder) SyncDir(path string) error {
	return r.do(func() error { return r.System.SyncDir(path) }, func(d *disk) { d.find(r.name(path)).syncDir() })
}

// Create implements durable.System.
func (r *Recorder) Create(path string, flag int, perm fs.FileMode) (durable.File, error) {
	var f durable.File
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

// file notes what is written to it, at its end.
type file struct {
	durable.File
	recorder *Recorder
	name     string
}

// Write implements durable.File.
func (f *file) Write(p []byte) (n int, err error) {
	data := append([]byte(nil), p...)
	err = f.recorder.do(func() error {
		n, err = f.File.Write(p)
		return err
	}, func(d *disk) { d.open[f].write(data[:n]) })
	return n, err
}

// Sync implements durable.File.
func (f *file) Sync() error {
	return f.recorder.do(f.File.Sync, func(d *disk) { d.open[f].sync() })
}
