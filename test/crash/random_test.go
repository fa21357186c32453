package crash

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// long reports whether the tests take as long as in CI. Each test says what is less by default.
func long() bool { return testkit.Full() || os.Getenv("SHEAF_CRASH_SECONDS") != "" }

// notShort skips a test that takes many seconds.
func notShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes many seconds")
	}
}

// onlyLong skips a test that only the long form has.
func onlyLong(t *testing.T) {
	t.Helper()
	if !long() {
		testkit.Long(t)
	}
}

// atLeast returns how many kills must meet each state of a batch: 1, and 10 in the long form.
func atLeast() int {
	if long() {
		return 10
	}
	return 1
}

// runTime returns how long the robots work while programs are killed: 1 s, in the long form 15 s,
// or SHEAF_CRASH_SECONDS. TestKilledAtRandom goes on longer if the kills have not met every state
// by then.
func runTime(t testing.TB) time.Duration {
	switch text := os.Getenv("SHEAF_CRASH_SECONDS"); {
	case text != "":
		n, err := strconv.Atoi(text)
		testkit.Must(t, err)
		return time.Duration(n) * time.Second
	case long():
		return 15 * time.Second
	}
	return time.Second
}

// states are those of a batch that a kill can meet, with the writes at which it certainly does.
var states = []struct {
	name   string
	deaths []death
}{
	{"receiving", []death{{Write: "receive/create", When: "after"}, {Write: "receive/data", When: "before"}, {Write: "receive/data", When: "after"},
		{Write: "receive/offset", When: "before"}, {Write: "receive/offset", When: "after"}, {Write: "ingest/place", When: "before"}}},
	{"received", []death{{Write: "ingest/enter", When: "after"}, {Write: "ingest/claim", When: "before", Since: "ingest/enter"}}},
	{"pre-split", []death{{Write: "ingest/claim", When: "after", Since: "ingest/enter"}, {Write: "ingest/stage", When: "before"},
		{Write: "ingest/stage", When: "after", Nth: 2}, {Write: "ingest/staged", When: "before"}, {Write: "ingest/staged", When: "after"}, {Write: "ingest/split", When: "before"}}},
	{"post-split", []death{{Write: "ingest/split", When: "after"}, {Write: "ingest/manifest", When: "before"}, {Write: "ingest/manifest", When: "after"},
		{Write: "catalog/publish-run", When: "before"}, {Write: "catalog/publish-run", When: "after"}}},
	{"publishing", []death{{Write: "catalog/publish-version", When: "before"}, {Write: "catalog/publish-version", When: "after"},
		{Write: "ingest/publish", When: "after"}, {Write: "ingest/published", When: "before"}}},
	{"collecting", []death{{Write: "ingest/published", When: "after"}, {Write: "ingest/collect", When: "before"},
		{Write: "ingest/collect", When: "after"}, {Write: "ingest/collected", When: "before"}}},
	{"quarantining", []death{{Write: "ingest/quarantine", When: "before"}, {Write: "ingest/quarantine", When: "after"},
		{Write: "ingest/move-aside", When: "before"}, {Write: "ingest/move-aside", When: "after"}}},
}

// TestKilledAtRandom kills the service again and again while robots upload to it, by HTTP and FTP,
// over connections that break, good batches and bad ones. For runTime half of the kills come at any
// moment, half at a write of the state that was met least often. The states that are left then are
// met at their writes.
func TestKilledAtRandom(t *testing.T) {
	notShort(t)
	t.Parallel()
	sheaf := testkit.Build(t, "sheaf/cmd/sheaf")
	h := newInstallation(t, "").start(nil)
	f := &fleet{installation: h}
	for _, r := range []struct {
		name string
		way  way
	}{{"waseda", byHTTP}, {"etl", byFTP}, {"jaist", cutHTTP}, {"nara", byAppend}, {"kyoto", byHTTP}} {
		f.members = append(f.members, &member{robot: h.join(r.name), way: r.way, spool: newSpool(t)})
	}
	for _, m := range f.members {
		h.add(m.robot.Name, 3)
	}
	for _, m := range f.members {
		h.fetchList(m.robot)
	}
	readers := f.read(t)
	working, stop := context.WithCancel(t.Context())
	robots := f.work(working)

	tally := newTally()
	for range testkit.For(runTime(t)) {
		tally.count(h, h.killSomehow(tally))
		h.start(bootDeath(t))
	}
	for least, n := tally.least(); n < atLeast(); least, n = tally.least() {
		if tally.kills > 300*atLeast() {
			t.Errorf("of %d kills only %d have met a batch %s", tally.kills, n, states[least].name)
			break
		}
		tally.count(h, h.killAtWrite(tally, testkit.Patience))
		h.start(nil)
	}
	stop()
	if at := h.kill(); at != "" {
		tally.count(h, at)
	}
	h.start(nil)
	robots.Wait()
	readers()
	batches := f.all()
	f.checkSpools(t, batches)
	h.checkEnd(sheaf, batches)
	var bytes int64
	for _, c := range batches {
		bytes += c.Manifest.Size
	}
	t.Logf("%s; %d batches of %d bytes, %d of them bad; readers looked at %d editions by HTTP and %d in the store",
		tally, len(batches), bytes, len(batches)-len(published(batches)), f.overHTTP, f.inStore)
}

// killSomehow kills the service: at any moment, or as killAtWrite, if the write comes within a
// second. It returns the write, or "".
func (h *installation) killSomehow(t *tally) string {
	random := testkit.Random(h.t)
	wait := time.Duration(random.Int64N(int64(300 * time.Millisecond)))
	if random.IntN(2) > 0 {
		return h.killAtWrite(t, time.Second)
	}
	return h.killWithin(wait)
}

// killAtWrite kills the service at a write of the state that was met least often, or when that does
// not come within the wait. It returns the write, or "".
func (h *installation) killAtWrite(t *tally, wait time.Duration) string {
	least, _ := t.least()
	h.doom(pick(h.t, states[least].deaths))
	return h.killWithin(wait)
}

// killWithin waits for the service to kill itself, and kills it if it has not.
func (h *installation) killWithin(wait time.Duration) string {
	select {
	case at := <-h.died:
		h.died <- at
	case <-time.After(wait):
	}
	return h.kill()
}

func pick[T any](t testing.TB, list []T) T { return list[testkit.Random(t).IntN(len(list))] }

// tally counts the kills.
type tally struct {
	kills, directed int
	met             []int // by state: kills that met at least one batch in it
	at              map[string]int
}

func newTally() *tally { return &tally{met: make([]int, len(states)), at: map[string]int{}} }

// least returns the state that was met least often.
func (t *tally) least() (state, kills int) {
	for i, n := range t.met {
		if n < t.met[state] {
			state = i
		}
	}
	return state, t.met[state]
}

// bootDeath returns, now and then, a death for a process that has hardly started.
func bootDeath(t testing.TB) *death {
	t.Helper()
	if testkit.Random(t).IntN(5) > 0 {
		return nil
	}
	d := pick(t, pick(t, states).deaths)
	d.Since = ""
	return &d
}

// count looks at what a process has left: which states are in its ledger and its buffers, and where
// it killed itself.
func (t *tally) count(h *installation, at string) {
	t.kills++
	met := map[string]bool{}
	if at != "" {
		t.directed++
		t.at[at]++
		for _, s := range states {
			met[s.name] = slices.ContainsFunc(s.deaths, func(d death) bool { return d.String() == at })
		}
	}
	h.ledger(`SELECT DISTINCT CASE state WHEN 'published' THEN 'collecting' ELSE state END FROM ingest_batches
		WHERE state <> 'quarantined' AND collected = 0`, func(scan func(...any) error) error {
		var state string
		err := scan(&state)
		met[state] = true
		return err
	})
	if len(names(h.t, h.data+"/buffers/receive")) > 0 {
		met["receiving"] = true
	}
	for i, s := range states {
		if met[s.name] {
			t.met[i]++
		}
	}
}

func (t *tally) String() string {
	text := fmt.Sprintf("%d kills, %d of them at a write; they met a batch", t.kills, t.directed)
	for i, s := range states {
		text += fmt.Sprintf(" %s %d,", s.name, t.met[i])
	}
	return text + fmt.Sprintf(" at %d different points of writes", len(t.at))
}

// fleet is the robots, and all that they have sent.
type fleet struct {
	*installation
	members []*member

	overHTTP, inStore int // editions that the readers have looked at

	mu      sync.Mutex // guards batches
	batches map[wire.BatchID]*madeBatch
}

type member struct {
	*robot
	way   way
	spool *spool
}

// work lets every robot make and upload batches until ctx ends, and then upload the rest.
func (f *fleet) work(ctx context.Context) *sync.WaitGroup {
	var g sync.WaitGroup
	random := testkit.Random(f.t)
	for i, m := range f.members {
		g.Go(func() {
			for n := int64(1); ctx.Err() == nil; n += 2 {
				for k := range int64(2) {
					c := m.make(f.t, n+k, 2, 4<<10+random.IntN(16<<10), m.hosts[:1+random.IntN(len(m.hosts))]...)
					if (n+k)%5 == int64(i) {
						c.damage()
					}
					f.register(c)
					if err := m.spool.add(c); err != nil {
						f.t.Error(err)
					}
				}
				if err := f.uploader(m.robot, m.spool, m.way).Drain(f.t.Context()); err != nil {
					f.t.Errorf("robot %s: %v", m.Name, err)
				}
			}
		})
	}
	return &g
}

func (f *fleet) register(c *madeBatch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.batches == nil {
		f.batches = map[wire.BatchID]*madeBatch{}
	}
	f.batches[c.ID] = c
}

func (f *fleet) made(id string) *madeBatch {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.batches[wire.BatchID(id)]
}

func (f *fleet) all() (list []*madeBatch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.batches {
		list = append(list, c)
	}
	return list
}

// checkSpools checks that each robot was told once, and correctly, what became of each of its
// batches.
func (f *fleet) checkSpools(t *testing.T, batches []*madeBatch) {
	for _, c := range batches {
		good, bad := 0, 0
		for _, m := range f.members {
			good += m.spool.published[c.ID]
			bad += m.spool.aside[c.ID]
		}
		if good+bad != 1 || (bad == 1) != c.bad {
			t.Errorf("batch %s (bad: %t): its robot was told %d times that it is published, %d times that it is quarantined", c.ID, c.bad, good, bad)
		}
	}
}
