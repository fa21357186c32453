package robotd

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sheaf/robotd/datadir"
	"sync"
	"time"
)

// pauseFile stands in the data folder while the robot is paused, so that it stays so
// over a restart.
const pauseFile = "paused.json"

// pause says whether the operator wants no visits. Pages in hand are finished; batches
// go on being uploaded, and the manager is talked to.
type pause struct {
	path  string
	turns chan struct{} // tells of a change

	mu sync.Mutex // guards at
	at time.Time  // since when; zero: it does not hold
}

type pauseRecord struct {
	Since time.Time `json:"since"`
}

func openPause(path string) (*pause, error) {
	p := &pause{path: path, turns: make(chan struct{}, 1)}
	data, err := os.ReadFile(p.path)
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	var rec pauseRecord
	if err == nil {
		err = json.Unmarshal(data, &rec)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; remove the file to end the pause", p.path, err)
	}
	p.at = rec.Since
	return p, nil
}

// since returns when the pause began; zero: there is none.
func (p *pause) since() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

// set begins or ends the pause, durably. It reports whether that changed anything.
func (p *pause) set(on bool) (changed bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on != p.at.IsZero() {
		return false, nil
	}
	at := time.Time{}
	if on {
		at = time.Now()
	}
	if err := writePause(p.path, at); err != nil {
		return false, err
	}
	p.at = at
	select {
	case p.turns <- struct{}{}:
	default: // told already
	}
	return true, nil
}

// writePause makes or, where at is zero, removes the file.
func writePause(path string, at time.Time) error {
	if at.IsZero() {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	return datadir.SaveJSON(path, pauseRecord{at})
}
