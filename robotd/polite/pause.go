package polite

import (
	"os"
	"sync"
	"time"

	"sheaf/internal/loop"
	"sheaf/robotd/config"
)

// Pause is an order to visit no hosts. Its file exists as long as the pause, so the pause outlasts
// the process. Its methods may be called concurrently.
type Pause struct {
	path    string
	changes chan struct{} // has an element after a change

	mu    sync.Mutex // guards since
	since time.Time  // zero: there is no pause
}

// pauseRecord is the content of a pause's file.
type pauseRecord struct {
	Since time.Time `json:"since"`
}

// OpenPause reads the file at path, if there is one.
func OpenPause(path string) (*Pause, error) {
	var rec pauseRecord
	err := config.LoadJSON(path, &rec)
	return &Pause{path: path, changes: make(chan struct{}, 1), since: rec.Since}, err
}

// Since returns the time at which the pause began; zero: there is no pause.
func (p *Pause) Since() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.since
}

// Set begins or ends the pause, in the file first. It reports whether that changed anything.
func (p *Pause) Set(on bool) (changed bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on != p.since.IsZero() {
		return false, nil
	}
	at := time.Time{}
	if on {
		at = time.Now()
		err = config.SaveJSON(p.path, pauseRecord{at})
	} else {
		err = os.RemoveAll(p.path) // it may be gone already
	}
	if err != nil {
		return false, err
	}
	p.since = at
	loop.Offer(p.changes, struct{}{})
	return true, nil
}
