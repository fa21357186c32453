package batch

import (
	"maps"
	"slices"
	"sync"
	"time"

	"sheaf/internal/wire"
	"sheaf/robotd/config"
)

// State is the uploader's progress, for display.
type State struct {
	Sending wire.BatchID // the batch that is being sent; empty: none
	To      string       // name of its target
	Since   time.Time    // start of this try
	From    int64        // bytes that the service had at the start, if known
	Moved   int64        // bytes that the service had or that were sent since
	Next    time.Time    // when the uploader looks into the spool again, unless a batch comes before
	Targets []config.TargetState
	Batches map[wire.BatchID]BatchState // batches in the spool that were tried
}

// BatchState says what a batch waits for.
type BatchState struct {
	Known wire.State // state at the service; empty: the service does not have the batch
	Error string     // last failure since the last success
	Next  time.Time  // time of the next step
}

// watched has the uploader's State.
type watched struct {
	mu sync.Mutex // guards s
	s  State
}

func (w *watched) change(fn func(*State)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn(&w.s)
}

// State returns the uploader's progress. It may be called concurrently with all other methods.
func (u *Uploader) State() State {
	u.seen.mu.Lock()
	defer u.seen.mu.Unlock()
	s := u.seen.s
	s.Targets = slices.Clone(s.Targets)
	s.Batches = maps.Clone(s.Batches)
	return s
}

// Moved records the position in the batch that is being sent, in bytes. Targets call it while they
// send. first says that a try begins there.
func (u *Uploader) Moved(at int64, first bool) {
	u.seen.change(func(s *State) {
		if s.Sending == "" {
			return
		}
		s.Moved = at
		if first {
			s.From = at
		}
	})
}

func (u *Uploader) sending(id wire.BatchID, to string) {
	u.seen.change(func(s *State) {
		s.Sending, s.To, s.Since, s.From, s.Moved = id, to, time.Now(), 0, 0
	})
}

// sent records the end of a try at a target.
func (u *Uploader) sent(i int, err error, r retry) {
	u.seen.change(func(s *State) {
		s.Sending, s.To = "", ""
		t := &s.Targets[i]
		if err == nil {
			t.Failures, t.Again, t.Answered = 0, time.Time{}, time.Now()
			return
		}
		t.Failures, t.Again = r.failures, r.due
		t.Error, t.Failed = err.Error(), time.Now()
	})
}

// stands updates what a batch waits for.
func (u *Uploader) stands(id wire.BatchID, set func(*BatchState)) {
	u.seen.change(func(s *State) {
		b := s.Batches[id]
		set(&b)
		s.Batches[id] = b
	})
}
