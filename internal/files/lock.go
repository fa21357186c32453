package files

import (
	"errors"
	"hash/crc32"
	"os"
	"sync"

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

// Mutex admits one goroutine at a time, among all processes of the machine.
type Mutex struct {
	mu   sync.Mutex
	file *os.File // locked with flock, which excludes other processes but not other goroutines
}

// NewMutex returns the mutex that all openers of the same file share. f must not be closed while
// the mutex is in use.
func NewMutex(f *os.File) *Mutex { return &Mutex{file: f} }

// Lock waits until the mutex is free, and takes it.
func (m *Mutex) Lock() {
	m.mu.Lock()
	// Lock fails only if the file is closed. Then this process is ending, and conditional updates
	// of the database decide between it and others.
	_ = Lock(m.file)
}

// Unlock releases the mutex.
func (m *Mutex) Unlock() {
	_ = Unlock(m.file)
	m.mu.Unlock()
}

// Mutexes divides keys among several mutexes. Work on one key excludes all other work on it, and
// work on a few other keys.
type Mutexes []*Mutex

// NewMutexes returns the mutexes that all openers of the same files share.
func NewMutexes(opened []*os.File) Mutexes {
	var m Mutexes
	for _, f := range opened {
		m = append(m, NewMutex(f))
	}
	return m
}

// Of returns the mutex of the key. All processes must have the same number of mutexes, in the same
// order.
func (m Mutexes) Of(key string) *Mutex {
	return m[crc32.ChecksumIEEE([]byte(key))%uint32(len(m))]
}

// Lock takes all mutexes. It must not be called by a goroutine that has one of them.
func (m Mutexes) Lock() {
	for _, one := range m {
		one.Lock()
	}
}

// Unlock releases all mutexes.
func (m Mutexes) Unlock() {
	for _, one := range m {
		one.Unlock()
	}
}
