package ingest_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/ingest/accept"
	"sheaf/ingest/inbox"
	"sheaf/internal/db"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"
)

// incoming returns the keys of the objects of batches that are not published.
func (h *installation) incoming() (keys []string) {
	h.t.Helper()
	for info, err := range h.store.List(h.t.Context(), "incoming/", "") {
		testkit.Must(h.t, err)
		keys = append(keys, info.Key)
	}
	return keys
}

// wantIncoming checks that a day later collection has deleted what killed processes have left, and
// that the quarantine has its files.
func (h *installation) wantIncoming() {
	h.t.Helper()
	h.stop()
	h.opt.Now = func() time.Time { return time.Now().Add(25 * time.Hour) }
	h.open().run()
	var want []string
	testkit.Must(h.t, db.Each(h.t.Context(), h.db, func(rows *sql.Rows) error {
		var name string
		var discarded bool
		err := rows.Scan(&name, &discarded)
		if want = append(want, name+".manifest"); !discarded {
			want = append(want, name+".tar.gz")
		}
		return err
	}, `SELECT incoming, decision = 'discarded' FROM ingest_batches WHERE state = 'quarantined' AND incoming <> '' ORDER BY incoming`))
	testkit.Eventually(h.t, "the store has what it should", func() error {
		if got := h.incoming(); !slices.Equal(got, want) {
			return fmt.Errorf("%q, want %q", got, want)
		}
		return nil
	})
	h.fsck()
}

// elsewhere returns a process on another machine: it shares the database and the store, and has
// buffers of its own.
func (h *installation) elsewhere() *installation {
	h.t.Helper()
	dir := h.opt.Dir
	h.opt.Dir = filepath.Join(h.t.TempDir(), "buffers")
	other := h.beside()
	h.opt.Dir = dir
	h.t.Cleanup(func() { other.stop() })
	return other
}

func newShared(t testing.TB) *installation {
	h := newInstallation(t)
	h.opt.InStore = true
	return h
}

// Of two machines one receives batches, begins to split one and is lost with its disk. The other
// publishes them all, and the receipts hold.
func TestMachineIsLost(t *testing.T) {
	h := newShared(t)
	h.opt.Limits.Lease = 200 * time.Millisecond // the other machine cannot see that this one is dead
	h.opt.Limits.Splitters = 1
	frozen, _ := h.freeze("stage")
	ctx, lose := context.WithCancel(t.Context())
	h.open()
	go h.in.Run(ctx)
	var batches []*batchtest.Batch
	for n := range int64(3) {
		b := batchtest.Make(t, h.robots, n+1, twoHosts(n)...)
		h.accept(b)
		batches = append(batches, b)
	}
	<-frozen
	h.opt.Boundary, h.opt.Limits.Lease = nil, 0
	lose() // the batch stays leased: writes stand still
	h.in.Die()
	other := h.elsewhere().run()
	testkit.Must(t, os.RemoveAll(h.opt.Dir))
	other.once(batches...)
	for _, b := range batches {
		r, fresh, err := other.in.Acceptor.Accept(t.Context(), other.upload(b), b.Signed)
		testkit.Must(t, err)
		if fresh || r.State != wire.StatePublished || r.SHA256 != b.Manifest.SHA256 {
			t.Errorf("%s: fresh %v, receipt %+v", b.ID, fresh, r)
		}
	}
	testkit.Until(t, "the store has none of their files", func() bool { return len(other.incoming()) == 0 })
	left, err := filepath.Glob(other.opt.Dir + "/*/*")
	testkit.Must(t, err)
	for _, name := range left {
		if !strings.Contains(name, "/processes/") {
			t.Errorf("%s lies in the buffers", name)
		}
	}
}

// One batch comes to two machines at once, several times. One call is fresh, and it is published
// once.
func TestOneBatchAtTwoMachines(t *testing.T) {
	h := newShared(t).open()
	other := h.elsewhere()
	b := batchtest.Make(t, h.robots, 1, twoHosts(1)...)
	var calls sync.WaitGroup
	fresh := make(chan bool, 8)
	machines := []*installation{h, other}
	uploads := []accept.Upload{h.upload(b), other.upload(b)}
	for n := range cap(fresh) {
		calls.Go(func() {
			_, first, err := machines[n%2].in.Acceptor.Accept(t.Context(), uploads[n%2], b.Signed)
			if err != nil {
				t.Error(err)
			}
			fresh <- first
		})
	}
	calls.Wait()
	close(fresh)
	n := 0
	for first := range fresh {
		if first {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d calls were the first", n)
	}
	h.run()
	h.once(b)
	h.wantIncoming()
}

// What one machine has quarantined, an operator decides at another, and a robot mends there.
func TestQuarantineElsewhere(t *testing.T) {
	h := newShared(t)
	h.robots.Foreign = []string{"a1.example.jp", "z1.example.jp"}
	h.open().run()
	judged := batchtest.Make(t, h.robots, 1, twoHosts(1)...)
	unwanted := batchtest.Make(t, h.robots, 2, twoHosts(1)...)
	damaged := batchtest.Make(t, h.robots, 3, twoHosts(3)...)
	broken := *damaged
	broken.Data = slices.Clone(damaged.Data)
	broken.Data[len(broken.Data)/3] ^= 0x40
	for _, b := range []*batchtest.Batch{judged, unwanted, &broken} {
		h.accept(b)
		h.await(b.ID, wire.StateQuarantined)
	}
	h.stop()
	other := h.elsewhere().run()
	testkit.Must(t, os.RemoveAll(h.opt.Dir))
	word := inbox.Order{By: "operator"}
	if _, err := other.in.Quarantine.Discard(t.Context(), string(unwanted.ID), word); err != nil {
		t.Fatal(err)
	}
	if _, err := other.in.Quarantine.Release(t.Context(), string(judged.ID), word); err != nil {
		t.Fatal(err)
	}
	if _, _, err := other.in.Acceptor.Accept(t.Context(), other.upload(damaged), damaged.Signed); err != nil {
		t.Fatal(err)
	}
	other.once(judged, damaged)
	refused := batchtest.NewRobots(t).Sign(t, batchtest.Make(t, h.robots, 4, twoHosts(4)...))
	_, _, err := other.in.Acceptor.Accept(t.Context(), other.upload(refused), refused.Signed)
	wantRefusal(t, err, wire.ReasonBadSignature)
	other.wantIncoming()
	if left := other.incoming(); len(left) != 3 {
		t.Errorf("%q is left; want the refused upload and a manifest", left)
	}
}
