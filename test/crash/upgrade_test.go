package crash

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// TestRollingUpgrade exchanges one build of the program for another at two services that share a
// database and a store, one after the other, while robots upload to both and consumers read from
// both. Nothing is lost or published twice, what was published keeps its bytes, and a consumer who
// is turned away gets its answer at the other service.
func TestRollingUpgrade(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	version := func(v string) (program string) {
		return testkit.Build(t, "sheaf/cmd/sheaf", "-ldflags", "-X sheaf/cmd/sheaf/service.release="+v)
	}
	before, after := version("9.1.0"), version("9.2.0")
	p := newPair(t, before, nil)
	p.sheaf = after
	p.joinAll(byHTTP, byFTP, cutHTTP, byHTTP)
	at := newStopwatch()
	consumers, retrying := p.consume(t), p.readAtEither(t)
	working, stop := context.WithCancel(t.Context())
	robots := p.workAtBoth(working, at)
	testkit.Eventually(t, "work begins", func() error { return at.reached("published", 3) })

	var stops []map[string]time.Duration
	for n, s := range p.services {
		s.lives.Add(1)
		if err := s.program.life.Stop(); err != nil {
			t.Errorf("the program of before, told to stop: %v", err)
		}
		s.program.path = after
		at.restart()
		p.start(n)
		testkit.Throughout(t, "both programs work", runTime(t), func() error {
			if s.program.life.HasEnded() || p.services[1-n].program.life.HasEnded() {
				return errors.New("a program has ended")
			}
			return nil
		})
		testkit.Eventually(t, "batches are taken and published", func() error { return at.reachedSince("taken", "published") })
		for _, k := range p.services {
			testkit.Eventually(t, "both are ready", func() error { return k.operate(http.MethodGet, "/readyz", nil, nil) })
			k.ask(http.MethodGet, strings.ReplaceAll(wire.PathList, "{robot}", "waseda"), p.members[0].robot, nil, nil)
		}
		stops = append(stops, at.since())
	}
	stop()
	robots.Wait()
	consumers()
	retrying()
	p.checkTwo(t)
	t.Logf("%d batches, first taken and published after each exchange after %v", len(p.all()), stops)
}

// readAtEither reads from one of the services, in turn, and if that is stopped from the other one,
// which must answer.
func (p *pair) readAtEither(t *testing.T) (end func()) {
	over := make(chan struct{})
	var g sync.WaitGroup
	g.Go(func() {
		looks, again := 0, 0
		for n := 0; ; n++ {
			var err error
			for try := range 2 {
				c := &consumer{fleet: p.fleet, url: p.services[(n+try)%2].url()}
				if _, err = c.get(t.Context(), "/pub/LATEST"); err == nil {
					break
				}
				again++
			}
			if err != nil && !strings.Contains(err.Error(), "404") { // nothing is published yet
				t.Errorf("a reader that tried both services: %v", err)
				return
			}
			looks++
			select {
			case <-over:
				t.Logf("a reader had %d answers, %d of them at the second service", looks, again)
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return func() { close(over); g.Wait() }
}
