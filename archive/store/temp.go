package store

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"syscall"

	"sheaf/internal/files"
)

// tempSpace is the directory for the temporary files of one process. The process holds a lock
// (flock) on it. The lock ends with the process. So a directory that nobody has locked belongs to a
// dead process and may be removed.
type tempSpace struct {
	name string
	lock *os.File
}

// openTemp removes the directories of dead processes and creates one for this process. It locks the
// parent directory meanwhile, so that nobody removes the new directory before it is locked.
func openTemp(root *os.Root, disk files.System) (*tempSpace, error) {
	if err := disk.Mkdir(tempDir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	all, err := root.Open(tempDir)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	if err := files.Lock(all); err != nil {
		return nil, err
	}
	if err := sweep(root, disk, all); err != nil {
		return nil, err
	}
	name := path.Join(tempDir, rand.Text())
	if err := disk.Mkdir(name, 0o755); err != nil {
		return nil, err
	}
	return lockTemp(root, name)
}

func lockTemp(root *os.Root, name string) (*tempSpace, error) {
	lock, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	if err := files.TryLock(lock); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &tempSpace{name: name, lock: lock}, nil
}

func sweep(root *os.Root, disk files.System, all *os.File) error {
	entries, err := all.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		dead, err := lockTemp(root, path.Join(tempDir, e.Name()))
		if errors.Is(err, syscall.EWOULDBLOCK) {
			continue // its process is alive
		}
		if err != nil {
			return err
		}
		if err := dead.close(disk); err != nil {
			return err
		}
	}
	return nil
}

// close removes the directory with its files, then releases the lock.
func (t *tempSpace) close(disk files.System) error {
	return errors.Join(disk.RemoveAll(t.name), t.lock.Close())
}
