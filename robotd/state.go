package robotd

import (
	"sync"
	"time"

	"sheaf/robotd/config"
)

// State is the last cycle, in a file. Its methods may be called concurrently.
type State struct {
	path string

	mu   sync.Mutex // guards last
	last record
}

// record is the content of a State's file.
type record struct {
	Number int64     `json:"number"`
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended,omitzero"` // zero: the cycle is not over
}

// OpenState reads the last cycle from a file. If there is no file, there was no cycle.
func OpenState(path string) (*State, error) {
	s := &State{path: path}
	return s, config.LoadJSON(path, &s.last)
}

// Number returns the number of the last cycle; zero: there was none.
func (s *State) Number() int64 { return s.get().Number }

// get returns the last cycle. If its times lie ahead, the clock was set back since. Then they count
// as now: otherwise the next cycle would wait until they come again.
func (s *State) get() record {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().Round(0) // the wall clock's
	if s.last.Ended.Round(0).After(now) {
		s.last.Ended = now
	}
	if s.last.Began.Round(0).After(now) {
		s.last.Began = now
	}
	return s.last
}

func (s *State) set(r record) error {
	s.mu.Lock()
	s.last = r
	s.mu.Unlock()
	return config.SaveJSON(s.path, r)
}
