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
		d := newWatchdog(time.Minute, func(t *turn) { lost = append(lost, t) })
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
	w.tells = func(host, uri string, hit int) *answer {
		if host == "h0.web.test" && uri == "/2.html" && hit == 1 {
			<-quiet
		}
		return nil
	}
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
