package files

import (
	"os"
	"sync"
)

// Mutex lets one goroutine of one process of a machine through at a time.
type Mutex struct {
	mu   sync.Mutex
	file *os.File // locked with flock, which excludes other processes but not other goroutines
}

// NewMutex returns the mutex of all who open the same file, which must not be closed while it is in
// use.
func NewMutex(f *os.File) *Mutex { return &Mutex{file: f} }

// Lock waits until no other has the mutex.
func (m *Mutex) Lock() {
	m.mu.Lock()
	// It fails only if the file is closed. Then this process is at its end, and conditional updates
	// of the database decide between it and others.
	_ = Lock(m.file)
}

// Unlock releases the mutex.
func (m *Mutex) Unlock() {
	_ = Unlock(m.file)
	m.mu.Unlock()
}
