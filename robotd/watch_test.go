package robotd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A fetch without progress is cancelled; a worker that does not heed it loses its turn.
func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var lost []*turn
		d := newWatchdog(time.Minute, func(t *turn) { lost = append(lost, t) }, func(*turn) {})
		go d.run(ctx)
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

// The whole robot: a server that takes a request and says nothing holds up neither the
// other hosts nor, once it answers, its own pages.
func TestStalledHost(t *testing.T) {
	w := newWeb(t, "127.42.0.1", 2, 2, 5)
	quiet := make(chan struct{})
	t.Cleanup(func() { close(quiet) })
	w.tell(func(host, uri string, hit int) *answer {
		if host == "h0.web.test" && uri == "/2.html" && hit == 1 {
			<-quiet
		}
		return nil
	})
	cfg := testConfig(t, newService(t, w.seeds()...), nil)
	cfg.Network.Resolver = w.names.LocalAddr().String()
	cfg.Page.Stall = 200 * time.Millisecond
	if err := Run(t.Context(), cfg, testLog(t)); err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"h0.web.test", "h1.web.test"} {
		for _, uri := range []string{"/1.html", "/3.html", "/4.html"} {
			if w.fetched(host, uri) != 1 {
				t.Errorf("%s%s was fetched %d times", host, uri, w.fetched(host, uri))
			}
		}
	}
	if n := w.fetched("h0.web.test", "/2.html"); n != 2 {
		t.Errorf("the page that hung was fetched %d times, want 2", n)
	}
}

// As many runs as there are places may be under way, and fewer where the slowness is this
// machine's own.
func TestCrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 2 * maxLively
		crew := newCrew(size)
		var seats []*seat
		join := func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			s, err := crew.join(ctx)
			if err == nil {
				seats = append(seats, s)
			}
			return err == nil
		}
		for len(seats) < maxLively {
			if !join() {
				t.Fatalf("%d runs are all that begin at once", len(seats))
			}
		}
		if join() {
			t.Error("a run begins beside as many as may be lively")
		}
		for i := 0; len(seats) < size; i++ {
			seats[i].free()
			seats[i].free() // again: it has no second place to give
			if !join() {
				t.Fatalf("no run begins in place of one that waits for its server, of %d", len(seats))
			}
		}
		seats[size-1].free()
		if join() {
			t.Error("more runs begin than there are places")
		}
		seats[0].leave()
		if !join() {
			t.Error("no run begins in place of one that has ended")
		}
		for _, s := range seats[1:] {
			s.free()
			s.leave()
		}
		crew.wait()
	})
}
