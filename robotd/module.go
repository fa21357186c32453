package robotd

import (
	"sync"
	"sync/atomic"
	"time"

	"sheaf/robotd/status"
)

// module is a stage of the crawl: workers that take turns from a queue. It counts
// what passes, so that the stage that holds up the others can be seen.
type module struct {
	name    string
	size    int // workers
	in      chan *turn
	workers *sync.WaitGroup
	passed  *meter
	busy    *meter        // nanoseconds of work
	last    *atomic.Int64 // nanoseconds since 1970, when something passed; 0: nothing has
}

func newModule(name string, workers int, work func(*turn)) module {
	m := module{
		name: name, size: workers, in: make(chan *turn, 4*workers),
		workers: new(sync.WaitGroup), passed: new(meter), busy: new(meter), last: new(atomic.Int64),
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
	m.last.Store(time.Now().UnixNano())
	m.busy.Add(int64(time.Since(began)))
}

// finish lets the workers empty the queue and waits for them.
func (m *module) finish() {
	close(m.in)
	m.workers.Wait()
}

// describe tells how busy the module is, with so many in its queue.
func (m *module) describe(queue int) status.Module {
	s := status.Module{
		Name: m.name, Queue: queue, Workers: m.size,
		Passed: m.passed.rate(), Busy: time.Duration(m.busy.Load()),
	}
	if n := s.Passed.PerMinute; n > 0 {
		s.Each = time.Duration(m.busy.PerMinute() / n)
	}
	return s
}

// stuck reports whether something has waited in the queue for so long and nothing passed.
func (m *module) stuck(queue int, since time.Time, patience time.Duration, now time.Time) bool {
	if last := time.Unix(0, m.last.Load()); last.After(since) {
		since = last
	}
	return queue > 0 && now.Sub(since) > patience
}
