package crawl

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/loop"
	"sheaf/robotd/config"
)

// A fetch without progress is cancelled; a worker that does not heed it loses its turn.
func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var lost []*turn
		d := newWatchdog(time.Minute)
		go loop.After(ctx, time.Second, func(context.Context) error {
			_, hung := d.look(time.Now())
			lost = append(lost, hung...)
			return nil
		}, nil)
		slow, stuck, deaf := new(turn), new(turn), new(turn)
		slowCtx, slowEnd := d.begin(ctx, slow)
		stuckCtx, stuckEnd := d.begin(ctx, stuck)
		_, deafEnd := d.begin(ctx, deaf)
		for range 100 {
			time.Sleep(10 * time.Second)
			slow.watch.progress()
			if stuckCtx.Err() != nil && stuckEnd != nil {
				if !stuckEnd() {
					t.Error("a worker that gave up its fetch in time has lost its turn")
				}
				stuckEnd = nil
			}
		}
		synctest.Wait()
		if !errors.Is(context.Cause(stuckCtx), errStalled) || slowCtx.Err() != nil {
			t.Errorf("the stuck fetch ended by %v, the slow one by %v", context.Cause(stuckCtx), slowCtx.Err())
		}
		if len(lost) != 1 || lost[0] != deaf || deafEnd() || !slowEnd() {
			t.Errorf("%d workers lost their turns, want the deaf one", len(lost))
		}
		stop()
	})
}

// As many runs as there are places may be under way, and fewer where the slowness is this
// machine's own.
func TestWorkerPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 2 * maxLively
		pool := newWorkerPool(size)
		var slots []*slot
		take := func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			s, err := pool.take(ctx)
			if err == nil {
				slots = append(slots, s)
			}
			return err == nil
		}
		for len(slots) < maxLively {
			if !take() {
				t.Fatalf("%d runs are all that begin at once", len(slots))
			}
		}
		if take() {
			t.Error("a run begins beside as many as may be lively")
		}
		for i := 0; len(slots) < size; i++ {
			slots[i].free()
			slots[i].free() // again: it has no second place to give
			if !take() {
				t.Fatalf("no run begins in place of one that waits for its server, of %d", len(slots))
			}
		}
		slots[size-1].free()
		if take() {
			t.Error("more runs begin than there are places")
		}
		slots[0].leave()
		slots[0].leave() // again
		if !take() {
			t.Error("no run begins in place of one that has ended")
		}
		for _, s := range slots {
			s.end()
		}
		pool.wait()
	})
}

// Where visits are due and nothing moves, the robot says so.
func TestNoProgress(t *testing.T) {
	now := time.Now()
	m := newStage("fetch", config.Module{})
	if m.stuck(0, now.Add(-time.Hour), time.Minute, now) {
		t.Error("an empty queue is stuck")
	}
	if m.stuck(3, now.Add(-30*time.Second), time.Minute, now) {
		t.Error("stuck before its time")
	}
	if !m.stuck(3, now.Add(-time.Hour), time.Minute, now) {
		t.Error("three wait and nothing passed for an hour")
	}
	m.count(time.Now())
	if m.stuck(3, now.Add(-time.Hour), time.Minute, time.Now()) {
		t.Error("stuck though something passed just now")
	}
}

func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Meter
		for range 300 { // one each second, for five minutes
			m.Add(1)
			time.Sleep(time.Second)
		}
		if n := m.PerMinute(); n < 59 || n > 61 || m.Load() != 300 {
			t.Errorf("%d in the last minute of %d", n, m.Load())
		}
		time.Sleep(30 * time.Second)
		if n := m.PerMinute(); n < 28 || n > 32 {
			t.Errorf("%d in a minute of which half was idle", n)
		}
		time.Sleep(2 * time.Minute)
		if n := m.PerMinute(); n != 0 {
			t.Errorf("%d in an idle minute", n)
		}
	})
}
