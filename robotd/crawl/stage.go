package crawl

import (
	"cmp"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/robotd/config"
)

// stage is a stage of the pipeline: workers that take turns from a queue. It counts what passes, so
// the status can show which stage holds up the others.
type stage struct {
	name    string
	size    int // workers
	in      chan *turn
	workers sync.WaitGroup
	passed  Meter
	busy    Meter        // nanoseconds of work
	last    atomic.Int64 // when something last passed, in nanoseconds since 1970; 0: never
}

// newStage returns a stage with as many workers and places in its queue as wanted.
func newStage(name string, want config.Module) *stage {
	workers := cmp.Or(want.Workers, runtime.GOMAXPROCS(0))
	return &stage{name: name, size: workers, in: make(chan *turn, cmp.Or(want.Queue, 4*workers))}
}

// start starts the workers.
func (s *stage) start(work func(*turn)) {
	for range s.size {
		s.workers.Go(func() {
			for t := range s.in {
				began := time.Now()
				work(t)
				s.count(began)
			}
		})
	}
}

// count counts a turn whose work has begun at a time and ends now.
func (s *stage) count(began time.Time) {
	s.passed.Add(1)
	s.last.Store(time.Now().UnixNano())
	s.busy.Add(int64(time.Since(began)))
}

// finish waits until the queue is empty and the workers have ended.
func (s *stage) finish() {
	close(s.in)
	s.workers.Wait()
}

// describe returns how busy the stage is. queue is the length of its queue.
func (s *stage) describe(queue int) Module {
	m := Module{
		Name: s.name, Queue: queue, Workers: s.size,
		Passed: s.passed.rate(), Busy: time.Duration(s.busy.Load()),
	}
	if n := m.Passed.PerMinute; n > 0 {
		m.Each = time.Duration(s.busy.PerMinute() / n)
	}
	return m
}

// stuck reports whether something waits in the queue and nothing has passed for longer than
// patience.
func (s *stage) stuck(queue int, since time.Time, patience time.Duration, now time.Time) bool {
	if last := time.Unix(0, s.last.Load()); last.After(since) {
		since = last
	}
	return queue > 0 && now.Sub(since) > patience
}

// Meter counts, and knows how much was counted within the last minute. It keeps only the counts of
// two clock minutes, since every host has some meters: of the earlier minute, the share counts that
// lies less than 60 s back. Its methods may be called concurrently.
type Meter struct {
	mu     sync.Mutex // guards all below
	total  int64
	minute int64 // number of the current minute, since 1970
	now    int64 // counted in it
	before int64 // counted in the one before
}

// Add counts n more.
func (m *Meter) Add(n int64) {
	t := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(t)
	m.total += n
	m.now += n
}

// Load returns all that was counted.
func (m *Meter) Load() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total
}

// PerMinute returns about how much was counted in the last minute.
func (m *Meter) PerMinute() int64 {
	t := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(t)
	into := t.Sub(time.Unix(60*m.minute, 0)).Seconds() / 60
	return m.now + int64(float64(m.before)*(1-into)+0.5)
}

func (m *Meter) turn(t time.Time) {
	switch minute := t.Unix() / 60; {
	case minute == m.minute:
	case minute == m.minute+1:
		m.minute, m.before, m.now = minute, m.now, 0
	default:
		m.minute, m.before, m.now = minute, 0, 0
	}
}

func (m *Meter) rate() Rate {
	return Rate{Total: m.Load(), PerMinute: m.PerMinute()}
}
