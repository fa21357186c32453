package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"sheaf/archive/store"
	"sheaf/ingest"
	"sheaf/ingest/accept"
	"sheaf/ingest/inbox"
	"sheaf/ingest/split"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"
)

// grave stops an Ingest at one boundary for ever: no durable write happens after it, as if the
// process had been killed there.
type grave struct {
	write, when string

	mu    sync.Mutex     // guards all below
	dead  bool           // no write begins
	under sync.WaitGroup // writes under way
	died  chan struct{}
}

func (g *grave) boundary(write, when string) {
	g.mu.Lock()
	if when == "after" {
		g.under.Done()
	}
	if write == g.write && when == g.when && !g.dead {
		g.dead = true
		close(g.died)
	}
	if g.dead {
		g.mu.Unlock()
		select {}
	}
	if when == "before" {
		g.under.Add(1)
	}
	g.mu.Unlock()
}

// bury starts the service, lets act use it, and abandons it when it dies at the boundary.
func (h *installation) bury(write, when string, act func(*ingest.Ingest)) {
	h.t.Helper()
	g := &grave{write: write, when: when, died: make(chan struct{})}
	h.opt.Boundary = g.boundary
	h.open()
	go h.in.Run(context.Background())
	go act(h.in) // may still run when h.in is another
	<-g.died
	g.under.Wait() // writes that had begun are finished
	h.in.Die()
	h.opt.Boundary = nil
}

func TestKilledAtEveryBoundary(t *testing.T) {
	bad := []string{"quarantine", "move-aside"} // only a bad batch reaches these writes
	for _, write := range inbox.Boundaries() {
		if write == "failure" || write == "keep" {
			continue // see TestStoreDown, and test/crash for files without manifest
		}
		for _, c := range []struct {
			when   string
			packs  split.Packs
			shared bool
		}{{when: "before"}, {when: "after"}, {"before", allPacked, false}, {"after", allPacked, false}, {"before", split.Packs{}, true}, {"after", allPacked, true}} {
			when := c.when
			t.Run(fmt.Sprint(write, " ", when, ", packs below ", c.packs.Below, ", shared ", c.shared), func(t *testing.T) {
				t.Parallel()
				h := newInstallation(t)
				h.opt.Packs, h.opt.InStore = c.packs, c.shared
				b := batchtest.Make(t, h.robots, 1, batchtest.Site("one.example.jp", 3), batchtest.Site("two.example.jp", 2))
				want := wire.StatePublished
				if slices.Contains(bad, write) {
					h.robots.Foreign, want = []string{"one.example.jp", "two.example.jp"}, wire.StateQuarantined
				}
				var up accept.Upload
				h.open()
				up = h.upload(b)
				h.bury(write, when, func(in *ingest.Ingest) { in.Acceptor.Accept(context.Background(), up, b.Signed) })

				h.open().run()
				if _, err := os.Stat(up.Path); err != nil {
					up.Path = ""
				}
				if _, _, err := h.in.Acceptor.Accept(t.Context(), up, b.Signed); err != nil {
					t.Fatal("the robot's second try:", err)
				}
				h.await(b.ID, want)
				lines := append(h.lines("one.example.jp"), h.lines("two.example.jp")...)
				if want == wire.StatePublished && len(lines) != 2 || want == wire.StateQuarantined && len(lines) != 0 {
					t.Fatalf("%d lines are public", len(lines))
				}
				for _, l := range lines {
					h.verify(l)
				}
				testkit.Until(t, "the batch leaves the buffers", func() bool {
					left, err := os.ReadDir(h.opt.Dir + "/batches")
					return err == nil && len(left) == 0
				})
				h.wantIncoming()
			})
		}
	}
}

// downStore fails some puts of segments, before or after the object is stored.
type downStore struct {
	store.Store
	puts int
}

var errDown = errors.New("the store is down")

func (s *downStore) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	if !strings.HasPrefix(key, "segments/") {
		return s.Store.Put(ctx, key, r, size)
	}
	s.puts++
	switch s.puts {
	case 1:
		return errDown
	case 2:
		io.CopyN(io.Discard, r, size/2)
		return errDown
	case 3:
		return errors.Join(s.Store.Put(ctx, key, r, size), errDown)
	}
	return s.Store.Put(ctx, key, r, size)
}

func TestStoreDown(t *testing.T) {
	h := newInstallation(t)
	down := &downStore{Store: h.store}
	h.store = down
	h.opt.Limits.Splitters = 1
	h.open().run()
	b := batchtest.Make(t, h.robots, 1, batchtest.Site("one.example.jp", 30))
	h.accept(b)
	h.await(b.ID, wire.StatePublished)
	lines := h.lines("one.example.jp")
	if len(lines) != 1 || !strings.HasSuffix(lines[0].Object, "-4.tar.gz") {
		t.Fatalf("lines %+v; want one, of the fourth attempt", lines)
	}
	h.verify(lines[0])
}

func TestStoppedAndStartedAgain(t *testing.T) {
	h := newInstallation(t).open().run()
	one := batchtest.Make(t, h.robots, 1, batchtest.Site("one.example.jp", 1))
	h.accept(one)
	h.await(one.ID, wire.StatePublished)
	h.stop()
	h.open()
	two := batchtest.Make(t, h.robots, 2, batchtest.Site("one.example.jp", 1))
	h.accept(two)
	h.run()
	h.await(two.ID, wire.StatePublished)
	if lines := h.lines("one.example.jp"); len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
}
