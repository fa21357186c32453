package upload

import (
	"maps"
	"sync"
	"time"

	"sheaf/internal/wire"
)

// State is how far the uploader is, for people.
type State struct {
	Sending wire.BatchID // on its way right now; empty: none
	To      string       // by which target
	Since   time.Time    // when this try began
	From    int64        // bytes of it that the service had then, where that is known
	Moved   int64        // bytes of it that have gone out or were there
	Targets []TargetState
	Batches map[wire.BatchID]BatchState // those in the spool that were tried
}

// TargetState is how a way to the service does.
type TargetState struct {
	Name     string
	Failures int       // in a row, whichever the batch
	Again    time.Time // left alone until then; zero or past: it is not
	Error    string    // of the last failure
	Failed   time.Time // when that was; zero: never since the start
	Sent     time.Time // when it last took a batch
}

// BatchState is what a batch waits for.
type BatchState struct {
	Known wire.State // what the service says of it; empty: it has not got it
	Error string     // of the last failure since the last success
	Next  time.Time  // when it is looked at again
}

// watched is the State as the uploader keeps it.
type watched struct {
	mu sync.Mutex // guards s
	s  State
}

func (w *watched) change(fn func(*State)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn(&w.s)
}

// State tells how far the uploader is. It may be called at any time.
func (u *Uploader) State() State {
	u.seen.mu.Lock()
	defer u.seen.mu.Unlock()
	s := u.seen.s
	s.Targets = append([]TargetState(nil), s.Targets...)
	s.Batches = maps.Clone(s.Batches)
	return s
}

// Moved notes that the batch on its way has got to a place, in bytes; targets tell it as
// they send. first says that a try begins there.
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

// sent notes the end of a try at a target.
func (u *Uploader) sent(i int, err error, r retry) {
	u.seen.change(func(s *State) {
		s.Sending, s.To = "", ""
		t := &s.Targets[i]
		if err == nil {
			t.Failures, t.Again, t.Sent = 0, time.Time{}, time.Now()
			return
		}
		t.Failures, t.Again = r.failures, r.due
		t.Error, t.Failed = err.Error(), time.Now()
	})
}

// stands notes what a batch waits for.
func (u *Uploader) stands(id wire.BatchID, set func(*BatchState)) {
	u.seen.change(func(s *State) {
		b := s.Batches[id]
		set(&b)
		s.Batches[id] = b
	})
}
