package batch

import (
	"context"
	"slices"
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

// show makes State return what the uploader does now.
func (u *Uploader) show() {
	s := &State{Sending: u.sending, To: u.to, Since: u.since, Next: u.next, Targets: slices.Clone(u.targets), Batches: make(map[wire.BatchID]BatchState)}
	for id, p := range u.batches {
		s.Batches[id] = BatchState{Known: p.known, Error: p.failed, Next: p.due}
	}
	u.shown.Store(s)
}

// State returns the uploader's progress, which the caller must not change. It may be called
// concurrently with all other methods.
func (u *Uploader) State() State {
	s := *u.shown.Load()
	if s.Sending != "" {
		s.From, s.Moved = u.from.Load(), u.moved.Load()
	}
	return s
}

// Moved records the position in the batch that is being sent, in bytes. Targets call it while they
// send. first says that a try begins there.
func (u *Uploader) Moved(at int64, first bool) {
	u.moved.Store(at)
	if first {
		u.from.Store(at)
	}
}

// try sends a batch to a target, and notes how that went.
func (u *Uploader) try(ctx context.Context, b Spooled, i int) error {
	to, t := u.opt.Targets[i], &u.targets[i]
	u.from.Store(0)
	u.moved.Store(0)
	u.sending, u.to, u.since = b.ID, to.Name(), time.Now()
	u.show()
	err := to.Send(ctx, b)
	u.sending, u.to = "", ""
	if err == nil {
		t.Failures, t.Again, t.Answered = 0, time.Time{}, time.Now()
	} else {
		t.Error, t.Failed = err.Error(), time.Now()
	}
	u.show()
	return err
}
