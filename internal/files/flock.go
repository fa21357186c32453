package files

import (
	"os"

	"golang.org/x/sys/unix"
)

// Lock locks an open file. It waits while another has the lock: another process, or another open
// file of this one.
func Lock(f *os.File) error { return call(f, unix.LOCK_EX) }

// TryLock is Lock, but returns unix.EWOULDBLOCK if another has the lock.
func TryLock(f *os.File) error { return call(f, unix.LOCK_EX|unix.LOCK_NB) }

// Unlock releases the lock without closing the file.
func Unlock(f *os.File) error { return call(f, unix.LOCK_UN) }

// call repeats the call if a signal interrupts it.
func call(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if err != unix.EINTR {
			return err
		}
	}
}
