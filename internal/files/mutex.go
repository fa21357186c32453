package files

import (
	"os"
	"sync"
)

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
