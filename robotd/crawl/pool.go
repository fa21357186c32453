package crawl

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// workerPool bounds the number of runs at once. A worker lives for one run, so ten thousand hosts
// do not need ten thousand stacks between their visits.
//
// A run takes some 20 KiB beside its page. If this machine or its line is slow, few runs should be
// under way, or many hosts that are due would all begin. Runs that wait for a slow server do not
// hold up the others: there may be as many as hosts to be visited at once.
type workerPool struct {
	places chan struct{} // one for each run, until its last fetch has ended
	lively chan struct{} // one for each run, until its last page is stored or its server keeps it waiting
	all    sync.WaitGroup
}

const (
	maxLively   = 256             // runs at once, without those that wait for their servers
	waitsLonger = 5 * time.Second // a run waits for its server when a page takes longer than this
)

func newWorkerPool(size int) *workerPool {
	return &workerPool{places: make(chan struct{}, size), lively: make(chan struct{}, min(size, maxLively))}
}

// slot is a run's place in the pool.
type slot struct {
	pool  *workerPool
	freed atomic.Bool
}

// take waits for a place.
func (w *workerPool) take(ctx context.Context) (*slot, error) {
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
	return &slot{pool: w}, nil
}

// free lets another run begin, since the pages of this one are stored or its server keeps it
// waiting. It may be called more than once.
func (s *slot) free() {
	if s.freed.CompareAndSwap(false, true) {
		<-s.pool.lively
	}
}

// leave gives up the place when the run's last fetch has ended.
func (s *slot) leave() {
	<-s.pool.places
	s.pool.all.Done()
}

// wait returns when every run has left.
func (w *workerPool) wait() { w.all.Wait() }

// backlog counts the turns whose pages are fetched and not stored yet.
type backlog struct {
	turns   atomic.Int64
	shrinks chan struct{} // of capacity 1; has an element after a turn was stored
}

// maxBacklog is the number of turns that may wait for processor and disk before no more runs begin.
const maxBacklog = 16

func (b *backlog) full() bool { return b.turns.Load() >= maxBacklog }

func (b *backlog) add() { b.turns.Add(1) }

func (b *backlog) remove() {
	b.turns.Add(-1)
	select {
	case b.shrinks <- struct{}{}:
	default:
	}
}

// wait returns when another run may begin, or ctx ends.
func (b *backlog) wait(ctx context.Context) error {
	for b.full() {
		select {
		case <-b.shrinks:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
