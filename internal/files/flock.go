package files

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Lock locks an open file. It waits while another process, or another open file of this process,
// has the lock.
func Lock(f *os.File) error { return call(f, unix.LOCK_EX) }

// TryLock is like Lock, but returns unix.EWOULDBLOCK instead of waiting.
func TryLock(f *os.File) error { return call(f, unix.LOCK_EX|unix.LOCK_NB) }

// Unlock releases the lock without closing the file.
func Unlock(f *os.File) error { return call(f, unix.LOCK_UN) }

// Held is a locked file. Close releases the lock at once, also while a program that this process
// has just started still has the file open.
type Held struct{ *os.File }

// Close releases the lock and closes the file.
func (h Held) Close() error { return errors.Join(Unlock(h.File), h.File.Close()) }

// call calls flock, again if a signal interrupts it.
func call(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if err != unix.EINTR {
			return err
		}
	}
}
