package robotd

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// crew bounds the runs that are under way at once. Workers live for one run, so that
// ten thousand hosts cost no ten thousand stacks between their visits.
//
// A run that is under way costs some 20 KiB beside its page, so that few of them may be when
// it is this machine that is slow, or the line: more would come in no time where many
// hosts are due. Servers that keep a run waiting are another matter. Nobody else must wait for
// those, and there are as many places as hosts to be visited at once.
type crew struct {
	places chan struct{} // one for each run, until its last fetch ends
	lively chan struct{} // one for each run, until its last page is stored or its server keeps it waiting
	all    sync.WaitGroup
}

const (
	maxLively   = 256             // runs at once, without those that wait for their servers
	waitsLonger = 5 * time.Second // and this is when they do: for one page
)

func newCrew(size int) *crew {
	return &crew{places: make(chan struct{}, size), lively: make(chan struct{}, min(size, maxLively))}
}

// seat is a run's place in the crew.
type seat struct {
	crew  *crew
	freed atomic.Bool
}

// join waits for a place.
func (w *crew) join(ctx context.Context) (*seat, error) {
	for i, places := range []chan struct{}{w.lively, w.places} {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			if i > 0 {
				<-w.lively
			}
			return nil, context.Cause(ctx)
		}
	}
	w.all.Add(1)
	return &seat{crew: w}, nil
}

// free lets another run be lively: this one's pages are stored, or its server keeps it
// waiting. It may be called more than once.
func (s *seat) free() {
	if s.freed.CompareAndSwap(false, true) {
		<-s.crew.lively
	}
}

// leave gives up the place when the run's last fetch has ended.
func (s *seat) leave() {
	<-s.crew.places
	s.crew.all.Done()
}

// wait returns when every run has left.
func (w *crew) wait() { w.all.Wait() }
