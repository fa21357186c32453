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
)

// Presence is a process's sign of life in a directory that it shares with others:
// a file that it keeps locked for as long as it lives. A lease says nothing about a
// process that has died a moment ago; the kernel does, and so those who share the
// directory need not wait for the lease's end.
type Presence struct {
	dir   string
	place string // of the directory: who is present elsewhere cannot be judged here
	file  *os.File
}

// Appear gives this process a sign of life in dir, which exists, and clears away
// those of the dead.
func Appear(dir string) (_ *Presence, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("sign of life in %s: %w", dir, err)
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
	if err := Flock(p.file, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, p.file.Close())
	}
	return p, nil
}

// Name is the process's, and no other's ever.
func (p *Presence) Name() string { return p.place + "/" + filepath.Base(p.file.Name()) }

// Gone tells whether the process of that name is known to have ended. Of one that
// is present in another directory nothing is known.
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
	defer f.Close() // and with it the lock
	err = Flock(f, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// Close ends the presence, as the process's end does.
func (p *Presence) Close() error { return p.file.Close() }

// clear removes the file of a process that has ended.
func (p *Presence) clear(name string) error {
	f, err := os.Open(filepath.Join(p.dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	switch err := Flock(f, unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil
	case err != nil:
		return err
	}
	return os.Remove(f.Name())
}

// lock keeps all others from appearing, and from judging one that is about to.
func (p *Presence) lock() (unlock func() error, err error) {
	d, err := os.Open(p.dir)
	if err != nil {
		return nil, err
	}
	if err := Flock(d, unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d.Close, nil
}

// placeFile holds what tells the directory apart from every other.
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

// Flock is flock(2), repeated where a signal interrupts it. The lock excludes other
// opened files, those of the same process too.
func Flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if err != unix.EINTR {
			return err
		}
	}
}
