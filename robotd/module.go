package robotd

import (
	"sync"
	"sync/atomic"
	"time"
)

// module is a stage of the crawl: workers that take turns from a queue. It counts
// what passes, so that the stage that holds up the others can be seen.
type module struct {
	name    string
	in      chan *turn
	workers *sync.WaitGroup
	passed  *atomic.Int64
	busy    *atomic.Int64 // nanoseconds of work
}

func newModule(name string, workers int, work func(*turn)) module {
	m := module{
		name: name, in: make(chan *turn, 4*workers),
		workers: new(sync.WaitGroup), passed: new(atomic.Int64), busy: new(atomic.Int64),
	}
	for range workers {
		m.workers.Go(func() {
			for t := range m.in {
				began := time.Now()
				work(t)
				m.count(began)
			}
		})
	}
	return m
}

func (m *module) count(began time.Time) {
	m.passed.Add(1)
	m.busy.Add(int64(time.Since(began)))
}

// finish lets the workers empty the queue and waits for them.
func (m *module) finish() {
	close(m.in)
	m.workers.Wait()
}
