package lease

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"sheaf/internal/files"
)

// Presence shows other processes on this machine that this process is alive. It is a file in a
// shared directory; the process keeps the file locked. When the process dies, the kernel releases
// the lock at once, so the others need not wait for its lease to end.
type Presence struct {
	dir   string
	place string // identifies the directory; Gone knows nothing of processes of other directories
	file  *os.File
}

// Appear creates this process's file in dir, which must exist. It removes the files of dead
// processes.
func Appear(dir string) (_ *Presence, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("presence file in %s: %w", dir, err)
		}
	}()
	p := &Presence{dir: dir}
	unlock, err := p.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if p.place, err = placeOf(dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Name() == placeFile {
			continue
		}
		if err := p.clear(e.Name()); err != nil {
			return nil, err
		}
	}
	p.file, err = os.OpenFile(filepath.Join(dir, rand.Text()), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return nil, err
	}
	if err := files.TryLock(p.file); err != nil {
		return nil, errors.Join(err, p.file.Close())
	}
	return p, nil
}

// Name returns the unique name of the process.
func (p *Presence) Name() string { return p.place + "/" + filepath.Base(p.file.Name()) }

// Gone reports whether the process with this name has certainly ended. It returns false for a
// process of another directory.
func (p *Presence) Gone(name string) (bool, error) {
	at, file, ok := strings.Cut(name, "/")
	if !ok || at != p.place {
		return false, nil
	}
	unlock, err := p.lock()
	if err != nil {
		return false, err
	}
	defer unlock()
	f, err := os.Open(filepath.Join(p.dir, filepath.Base(file)))
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close() // releases the lock
	err = files.TryLock(f)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// Close ends the presence; so does the end of the process.
func (p *Presence) Close() error { return files.Held{File: p.file}.Close() }

// clear removes the file if its process has ended.
func (p *Presence) clear(name string) error {
	f, err := os.Open(filepath.Join(p.dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	switch err := files.TryLock(f); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil
	case err != nil:
		return err
	}
	return os.Remove(f.Name())
}

// lock makes Appear and Gone of other processes wait until unlock.
func (p *Presence) lock() (unlock func() error, err error) {
	d, err := os.Open(p.dir)
	if err != nil {
		return nil, err
	}
	if err := files.Lock(d); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d.Close, nil
}

// placeFile holds the text that identifies the directory.
const placeFile = "place"

func placeOf(dir string) (string, error) {
	f, err := os.OpenFile(filepath.Join(dir, placeFile), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil || len(text) > 0 {
		return string(text), err
	}
	fresh := rand.Text()
	_, err = f.WriteString(fresh)
	return fresh, err
}
