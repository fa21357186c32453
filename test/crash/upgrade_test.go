package crash

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// TestRollingUpgrade exchanges yesterday's program for today's at two services that share a
// database and a store, one after the other, while robots upload to both and consumers read from
// both. The first of today's brings the database's schema up to date, and yesterday's works on with
// it. Nothing is lost or published twice, what was published keeps its bytes, and a consumer who is
// turned away gets its answer at the other service. Afterwards yesterday's program is refused, with
// the reason.
func TestRollingUpgrade(t *testing.T) {
	notShort(t)
	t.Parallel()
	yesterday, today := testkit.BuildAt(t, testkit.Yesterday, "sheaf/cmd/sheaf"), testkit.Build(t, "sheaf/cmd/sheaf")
	p := newPair(t, yesterday, nil)
	p.sheaf = today
	p.joinAll(byHTTP, byFTP, cutHTTP, byHTTP)
	at := newStopwatch()
	consumers, retrying := p.consume(t), p.readAtEither(t)
	working, stop := context.WithCancel(t.Context())
	robots := p.workAtBoth(working, at)
	testkit.Eventually(t, "work begins", func() error { return at.reached("published", 3) })

	schema := p.schema()
	var stops []map[string]time.Duration
	for n, s := range p.services {
		s.lives.Add(1)
		if err := s.program.life.Stop(); err != nil {
			t.Errorf("yesterday's program, told to stop: %v", err)
		}
		s.program.path = today
		at.restart()
		p.start(n)
		for end := time.Now().Add(runTime(t)); time.Now().Before(end); time.Sleep(breath) {
			if s.program.life.HasEnded() || p.services[1-n].program.life.HasEnded() {
				t.Fatal("a program has ended")
			}
		}
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
	now := p.schema()
	if now <= schema {
		t.Errorf("the schema was %d and is %d: nothing was upgraded; move testkit.Yesterday", schema, now)
	}
	p.refused(yesterday, fmt.Sprintf("schema version %d is newer than this program's %d", now, schema))
	p.checkTwo(t)
	t.Logf("%d batches, schema %d to %d, today's first batch taken and published after %v", len(p.all()), schema, now, stops)
}

// schema returns the number of the database's newest migration.
func (p *pair) schema() (n int64) {
	p.t.Helper()
	d, err := sql.Open("pgx", p.settings["database.url"].(string))
	testkit.Must(p.t, err)
	defer d.Close()
	testkit.Must(p.t, d.QueryRow(`SELECT max(version_id) FROM goose_db_version`).Scan(&n))
	return n
}

// refused checks that a program does not start on the database, and says why.
func (p *pair) refused(program, why string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), testkit.Patience)
	defer cancel()
	flags := append(p.services[0].flags(), "--set", "http.listen="+testkit.Addresses(p.t, 1)[0], "--set", "download.listen=", "--set", "drop.listen=")
	out, err := exec.CommandContext(ctx, program, append([]string{"serve"}, flags...)...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), why) {
		p.t.Errorf("yesterday's program on today's database: %v, %s; want %q", err, out, why)
	}
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
