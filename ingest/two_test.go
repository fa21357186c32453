package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/store/storetest"
	"sheaf/ingest/inbox"
	"sheaf/ingest/split"
	"sheaf/internal/db"
	"sheaf/internal/testkit"
	"sheaf/internal/window"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"
)

// beside returns a second process on the same buffers, database and store.
func (h *installation) beside() *installation {
	h.t.Helper()
	other := *h
	var err error
	other.db, err = db.Open(h.t.Context(), h.source)
	testkit.Must(h.t, err)
	h.t.Cleanup(func() { other.db.Close() })
	other.store, err = store.OpenFS(filepath.Join(h.dir, "objects"))
	testkit.Must(h.t, err)
	other.opt.DB = other.db
	return other.open()
}

// twoHosts returns the hosts of each batch in the tests below.
func twoHosts(n int64) []batchtest.Host {
	return []batchtest.Host{batchtest.Site(fmt.Sprintf("a%d.example.jp", n), 3), batchtest.Site(fmt.Sprintf("z%d.example.jp", n), 2)}
}

// watch reads versions of the catalog until stop is called. Every batch in a version must be whole,
// and every segment must verify.
func (h *installation) watch() (stop func()) {
	var done atomic.Bool
	var reading sync.WaitGroup
	reads := 0
	reading.Go(func() {
		for last := false; !last; reads++ {
			last = done.Load()
			h.readWhole()
		}
	})
	return func() {
		h.t.Helper()
		done.Store(true)
		reading.Wait()
		if reads < 2 {
			h.t.Errorf("the reader read %d times", reads)
		}
	}
}

func (h *installation) readWhole() {
	ctx := context.Background()
	s, err := h.cat.Pin(ctx)
	if err != nil {
		h.t.Error(err)
		return
	}
	defer s.Release()
	editions, err := s.Editions(ctx)
	if err != nil {
		h.t.Error(err)
	}
	hosts := make(map[string]int)
	for _, e := range editions {
		for l, err := range s.Edition(ctx, e.Name) {
			if err != nil {
				h.t.Error(err)
				return
			}
			if hosts[l.Batch]++; l.Edition != e.Name {
				h.t.Errorf("%s: line of edition %s", e.Name, l.Edition)
			}
			h.readLine(ctx, l)
		}
	}
	for batch, n := range hosts {
		if n != 2 {
			h.t.Errorf("version %d shows %d hosts of batch %s, want both", s.Version(), n, batch)
		}
	}
}

func (h *installation) readLine(ctx context.Context, l catalog.SegmentEntry) {
	r, err := h.store.Open(ctx, l.Object, l.Offset, l.Length)
	if err != nil {
		h.t.Error(err)
		return
	}
	defer r.Close()
	if sum, err := archive.VerifySegment(r, archive.VerifyOptions{Host: l.Host}); err != nil || sum.SHA256 != l.SHA256 {
		h.t.Errorf("%s in %s: %v", l.Host, l.Object, err)
	}
}

// once checks that each batch is published exactly once, in the edition that its receipt names.
func (h *installation) once(batches ...*batchtest.Batch) {
	h.t.Helper()
	for _, b := range batches {
		r := h.await(b.ID, wire.StatePublished)
		for _, host := range b.Manifest.Hosts {
			lines := h.lines(host.Name)
			if len(lines) != 1 || lines[0].Edition != r.Edition || lines[0].BatchSHA256 != b.Manifest.SHA256 {
				h.t.Errorf("batch %s, receipt %+v: %s has lines %+v", b.ID, r, host.Name, lines)
			}
		}
	}
	h.fsck()
}

// Two processes with one ledger split and publish the same batches, each batch once, while a reader
// reads.
func TestTwoProcesses(t *testing.T) {
	for name, packs := range map[string]split.Packs{"own": {}, "packs": allPacked} {
		t.Run(name, func(t *testing.T) {
			h := newInstallation(t)
			h.opt.Packs = packs
			h.open()
			other := h.beside()
			stop := h.watch()
			h.run()
			other.run()
			defer other.stop()
			var batches []*batchtest.Batch
			for n := range int64(12) {
				b := batchtest.Make(t, h.robots, n+1, twoHosts(n)...)
				batches = append(batches, b)
				at := h
				if n%2 == 1 {
					at = other
				}
				at.accept(b)
			}
			for _, b := range batches {
				h.await(b.ID, wire.StatePublished)
			}
			stop()
			h.once(batches...)
			for _, b := range batches {
				if row := h.row(b.ID); row.Attempt != 1 {
					t.Errorf("batch %s took %d attempts: two were at work on it", b.ID, row.Attempt)
				}
			}
		})
	}
}

// row returns what the ledger has of a batch.
func (h *installation) row(id wire.BatchID) (b inbox.Batch) {
	h.t.Helper()
	testkit.Must(h.t, h.db.QueryRowContext(h.t.Context(), `SELECT attempt, state FROM ingest_batches WHERE id = ?`, id).Scan(&b.Attempt, &b.State))
	return b
}

// freeze stops the process's durable writes from the first one of that name on, as if it were
// suspended, until let is called. It stops neither the renewal of leases nor what the test itself
// accepts.
func (h *installation) freeze(write string) (frozen <-chan struct{}, let func()) {
	at, on := make(chan struct{}), make(chan struct{})
	freeze := sync.OnceFunc(func() { close(at) })
	h.opt.Boundary = func(name, when string) {
		if name == write && when == "before" {
			freeze()
		}
		if name == inbox.BoundaryPlace || name == inbox.BoundaryEnter {
			return // by the test, which must go on
		}
		select {
		case <-at:
			<-on
		default:
		}
	}
	return at, sync.OnceFunc(func() { close(on) })
}

// A splitter that stood still is fenced: another process has claimed its batch after the lease
// ended, and nothing that the slow one does counts.
func TestSlowSplitterIsFenced(t *testing.T) {
	h := newInstallation(t)
	h.opt.Limits.Lease = time.Hour // with a short one this process might claim it again before the other does
	frozen, let := h.freeze("stage")
	h.open().run()
	defer let()
	b := batchtest.Make(t, h.robots, 1, twoHosts(1)...)
	h.accept(b)
	<-frozen
	h.opt.Boundary, h.opt.Limits.Lease = nil, time.Minute
	h.opt.Now = func() time.Time { return time.Now().Add(90 * time.Minute) } // by this clock the lease is over
	other := h.beside().run()
	defer other.stop()
	testkit.Until(t, "the other splits it", func() bool { return other.row(b.ID).State != wire.StatePreSplit })
	let()
	other.once(b)
	lines := other.lines("a1.example.jp")
	if !strings.HasSuffix(lines[0].Object, "-2.tar.gz") || h.row(b.ID).Attempt != 2 {
		t.Errorf("line %+v; want the second attempt's", lines[0])
	}
}

// A batch stays with a process that works on it, however long that takes.
func TestLeaseIsPutOff(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	h := newInstallation(t)
	h.opt.Limits.Lease = time.Second
	longer := make(chan struct{})
	h.store = &storetest.Fault{Store: h.store, Decide: func(_, key string) storetest.Outcome {
		if strings.HasPrefix(key, "segments/") {
			<-longer
		}
		return storetest.Works
	}}
	h.open()
	b := batchtest.Make(t, h.robots, 1, twoHosts(1)...)
	h.accept(b)
	h.run()
	h.await(b.ID, wire.StatePreSplit)
	end := func() (until int64) {
		testkit.Must(t, h.db.QueryRowContext(t.Context(), `SELECT lease_until FROM ingest_batches WHERE id = ?`, b.ID).Scan(&until))
		return until
	}
	for range 2 {
		last := end()
		testkit.Until(t, "the lease is put off", func() bool { return end() > last })
	}
	close(longer)
	h.once(b)
}

// Batches that a process had claimed before it died are claimed by others at once: by its next
// start, and by those that live. Batches of processes that live are not.
func TestLeaseOfTheDead(t *testing.T) {
	t.Run("by the next start", func(t *testing.T) { testLeaseOfTheDead(t, true) })
	t.Run("by one that lives", func(t *testing.T) { testLeaseOfTheDead(t, false) })
}

func testLeaseOfTheDead(t *testing.T, restart bool) {
	h := newInstallation(t)
	h.opt.Limits.Lease = time.Hour
	h.opt.Limits.Poll, h.opt.Limits.Splitters = 20*time.Millisecond, 1
	h.opt.Window = window.Never() // or the frozen one might hold the lock of publishers
	frozen, let := h.freeze("stage")
	h.open().run()
	defer let()
	b := batchtest.Make(t, h.robots, 1, twoHosts(1)...)
	h.accept(b)
	<-frozen
	slow := h.in
	h.opt.Boundary, h.opt.Window = nil, nil
	other := h.beside().run()
	next := batchtest.Make(t, h.robots, 2, twoHosts(2)...)
	other.accept(next)
	other.await(next.ID, wire.StatePublished) // by the one that can split, which has seen b too
	if row := h.row(b.ID); row.Attempt != 1 || row.State != wire.StatePreSplit {
		t.Errorf("a batch in work was taken: %+v", row)
	}
	if restart {
		other.stop()
	}
	slow.Die()
	if restart {
		other.open().run()
	}
	defer other.stop()
	other.once(b)
	if row := h.row(b.ID); row.Attempt != 2 {
		t.Errorf("%+v", row)
	}
}

// A publisher stands still before the append. Meanwhile another publishes its batch in another
// edition, together with more. Both processes tell each batch's robot the edition that has it.
func TestSlowPublisher(t *testing.T) {
	h := newInstallation(t)
	h.opt.Leases = new(everybody)
	h.opt.Window = window.Never()
	h.open().run()
	one := batchtest.Make(t, h.robots, 1, twoHosts(1)...)
	two := batchtest.Make(t, h.robots, 2, twoHosts(2)...)
	h.accept(one)
	h.await(one.ID, wire.StatePostSplit)
	h.stop()
	frozen, let := h.freeze("publish")
	h.open()
	ended := make(chan error, 1)
	go func() {
		_, _, err := h.in.Publisher.Now(context.Background())
		ended <- err
	}()
	defer let()
	<-frozen
	h.opt.Boundary, h.opt.Window = nil, nil
	other := h.beside().run()
	defer other.stop()
	other.await(one.ID, wire.StatePublished)
	other.accept(two)
	other.await(two.ID, wire.StatePublished)
	let()
	testkit.Must(t, <-ended)
	other.once(one, two)
	if a, b := other.row(one.ID), other.row(two.ID); a.State != wire.StatePublished || b.State != wire.StatePublished {
		t.Errorf("%+v, %+v", a, b)
	}
}

// The catalog refuses a publisher whose token is not the highest, and readers see nothing of its
// batch until it has a new token.
func TestFencedPublisher(t *testing.T) {
	h := newInstallation(t)
	leases := new(everybody)
	h.opt.Leases = leases
	h.opt.Window = window.Never()
	h.open().run()
	b := batchtest.Make(t, h.robots, 1, twoHosts(1)...)
	h.accept(b)
	h.await(b.ID, wire.StatePostSplit)
	h.stop()
	frozen, let := h.freeze("publish")
	h.open()
	refused := make(chan error, 1)
	go func() {
		_, _, err := h.in.Publisher.Now(context.Background())
		refused <- err
	}()
	<-frozen
	h.publishElsewhere(leases.token.Add(1))
	let()
	if err := <-refused; !errors.Is(err, catalog.ErrFenced) {
		t.Errorf("the slow publisher gets %v", err)
	}
	if lines := h.lines("a1.example.jp"); len(lines) != 0 {
		t.Errorf("published by a fenced publisher: %+v", lines)
	}
	_, n, err := h.in.Publisher.Now(t.Context())
	if err != nil || n != 1 {
		t.Errorf("with a new token: %d batches, %v", n, err)
	}
	h.once(b)
}

// publishElsewhere publishes another batch with a token.
func (h *installation) publishElsewhere(token int64) {
	h.t.Helper()
	_, err := h.cat.Publish(h.t.Context(), catalog.Publication{Batches: []catalog.Batch{{ID: "import-1", SHA256: "00"}}, Token: token})
	testkit.Must(h.t, err)
}

// everybody gives the lease to all who ask, at once: the worst that a lease service can do.
type everybody struct{ token atomic.Int64 }

func (e *everybody) Do(ctx context.Context, _ string, f func(context.Context, int64) error) error {
	return f(ctx, e.token.Add(1))
}

func (e *everybody) Raise(_ context.Context, _ string, least int64) error {
	for {
		if n := e.token.Load(); n >= least || e.token.CompareAndSwap(n, least) {
			return nil
		}
	}
}

// Of two publishers the second waits for its turn.
func TestPublishersTakeTurns(t *testing.T) {
	h := newInstallation(t)
	frozen, let := h.freeze("publish")
	h.open().run()
	defer let()
	b := batchtest.Make(t, h.robots, 1, twoHosts(1)...)
	h.accept(b)
	<-frozen
	h.opt.Boundary = nil
	other := h.beside()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	quit := make(chan error, 1)
	go func() {
		_, n, err := other.in.Publisher.Now(ctx)
		quit <- errors.Join(err, map[bool]error{true: fmt.Errorf("%d batches", n)}[n != 0])
	}()
	testkit.Until(t, "the second waits", func() (waits bool) {
		testkit.Must(t, h.db.QueryRowContext(t.Context(), `SELECT count(*) = 2 FROM lease_queue WHERE name = 'publish'`).Scan(&waits))
		return waits
	})
	cancel()
	if err := testkit.Receive(t, "the second's end", quit); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want it to be waiting", err)
	}
	let()
	h.once(b)
}

// If the tokens of leases begin again at 1, as after a backup is restored, the catalog has a higher
// one. Publishing goes on all the same.
func TestTokensBeginAnew(t *testing.T) {
	h := newInstallation(t)
	h.open()
	h.publishElsewhere(1_000_000)
	h.run()
	b := batchtest.Make(t, h.robots, 1, twoHosts(1)...)
	h.accept(b)
	h.await(b.ID, wire.StatePublished)
	h.once(b)
}

// A publication whose answer is lost is found and not repeated, whichever of its writes it was.
func TestPublishReplyIsLost(t *testing.T) {
	for _, prefix := range []string{"batches/", "runs/", "catalog/"} {
		for name, outcome := range map[string]storetest.Outcome{"happened": storetest.FailsButHappened, "failed": storetest.Fails} {
			t.Run(prefix+" "+name, func(t *testing.T) {
				h := newInstallation(t)
				var faults atomic.Int64
				h.store = &storetest.Fault{Store: h.store, Decide: func(_, key string) storetest.Outcome {
					if strings.HasPrefix(key, prefix) && faults.Add(1) <= 2 {
						return outcome
					}
					return storetest.Works
				}}
				h.open().run()
				stop := h.watch()
				b := batchtest.Make(t, h.robots, 1, twoHosts(1)...)
				h.accept(b)
				h.await(b.ID, wire.StatePublished)
				stop()
				h.once(b)
				if faults.Load() == 0 {
					t.Error("no write under " + prefix)
				}
			})
		}
	}
}
