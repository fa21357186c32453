package crash

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"sheaf/internal/wire"
	"sheaf/robotd/batch"
)

// stopwatch measures how long after the last restart each thing was first done again.
type stopwatch struct {
	mu     sync.Mutex // guards all below
	zero   time.Time
	took   map[string]time.Duration
	counts map[string]int
	taken  map[wire.BatchID]bool // batches whose sending began since
}

func newStopwatch() *stopwatch {
	s := &stopwatch{counts: map[string]int{}}
	s.restart()
	return s
}

func (s *stopwatch) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zero, s.took, s.taken = time.Now(), map[string]time.Duration{}, map[wire.BatchID]bool{}
}

func (s *stopwatch) stop(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(what)
}

func (s *stopwatch) note(what string) {
	s.counts[what]++
	if _, ok := s.took[what]; !ok {
		s.took[what] = time.Since(s.zero)
	}
}

// sent records a batch that was uploaded, if the upload began since the restart.
func (s *stopwatch) sent(id wire.BatchID, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if began.After(s.zero) {
		s.note("taken")
		s.taken[id] = true
	}
}

// published records a batch that is public, if it was uploaded since the restart.
func (s *stopwatch) published(id wire.BatchID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[id] {
		s.note("published")
	}
}

// reached returns an error if something was not done n times yet.
func (s *stopwatch) reached(what string, n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts[what] < n {
		return fmt.Errorf("%s %d times of %d", what, s.counts[what], n)
	}
	return nil
}

// reachedSince returns an error if something was not done yet since the restart.
func (s *stopwatch) reachedSince(all ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, what := range all {
		if _, ok := s.took[what]; !ok {
			return fmt.Errorf("nothing is %s yet", what)
		}
	}
	return nil
}

func (s *stopwatch) since() map[string]time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.took)
}

// means says in words what the stopwatch measures.
var means = map[string]string{
	"list": "the next list fetched", "taken": "the next batch taken", "published": "a batch brought since published",
	"drained": "all that the dead one had published", "collected": "a collection done",
}

// report prints how long things took after each kill.
func report(t testing.TB, title string, kills []map[string]time.Duration, what ...string) {
	for _, key := range what {
		var took []float64
		for _, k := range kills {
			took = append(took, k[key].Seconds())
		}
		slices.Sort(took)
		t.Logf("%s; from the kill to %s: median %.2f s, worst %.2f s", title, means[key], took[len(took)/2], took[len(took)-1])
	}
}

// timed is a target that tells the stopwatch of its successes.
type timed struct {
	batch.Target
	at *stopwatch
}

func (t timed) Send(ctx context.Context, b batch.Spooled) error {
	began := time.Now()
	err := t.Target.Send(ctx, b)
	if err == nil {
		t.at.sent(b.ID, began)
	}
	return err
}
