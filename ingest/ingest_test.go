package ingest_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/archive/store"
	"sheaf/ingest"
	"sheaf/ingest/accept"
	"sheaf/ingest/inbox"
	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/servicekey"
	"sheaf/internal/testkit"
	"sheaf/internal/window"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"
)

// installation is an Ingest with its database, store and folders, which a test starts, stops and
// looks into.
type installation struct {
	t      testing.TB
	dir    string
	robots *batchtest.Robots
	key    ed25519.PrivateKey
	source string // of db
	db     *sql.DB
	store  store.Store
	cat    *catalog.Catalog
	opt    ingest.Options
	in     *ingest.Ingest
	stop   func()
}

func newInstallation(t testing.TB) *installation {
	h := &installation{t: t, dir: t.TempDir(), robots: batchtest.NewRobots(t), stop: func() {}}
	_, h.key, _ = ed25519.GenerateKey(nil)
	fsStore, err := store.OpenFS(filepath.Join(h.dir, "objects"))
	testkit.Must(t, err)
	t.Cleanup(func() { h.stop(); fsStore.Close() })
	h.store = fsStore
	h.source = dbtest.Source(t)
	h.db, err = db.Open(t.Context(), h.source)
	testkit.Must(t, err)
	t.Cleanup(func() { h.db.Close() })
	h.opt = ingest.Options{
		DB: h.db, Dir: filepath.Join(h.dir, "buffers"), Robots: h.robots, Key: servicekey.Fixed(h.key),
		Limits: ingest.Limits{Poll: 20 * time.Millisecond, BackoffMin: 5 * time.Millisecond, BackoffMax: 20 * time.Millisecond},
	}
	return h
}

// open makes a new Ingest, as a start of the service does.
func (h *installation) open() *installation {
	h.t.Helper()
	var err error
	h.cat, err = catalog.Open(h.t.Context(), h.store, catalog.Options{Location: h.opt.Zone, Now: h.opt.Now})
	testkit.Must(h.t, err)
	h.opt.Store, h.opt.Catalog = h.store, h.cat
	h.in, err = ingest.New(h.t.Context(), h.opt)
	testkit.Must(h.t, err)
	return h
}

// run runs the Ingest until stop is called.
func (h *installation) run() *installation {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.in.Run(ctx) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
	})
	return h
}

// upload writes a batch's bytes to a file, as a receiver does.
func (h *installation) upload(b *batchtest.Batch) accept.Upload {
	path := filepath.Join(h.opt.Dir, "upload-"+wire.Digest(b.Data)[:8])
	testkit.Must(h.t, os.WriteFile(path, b.Data, 0o600))
	return accept.Upload{Batch: b.ID, Robot: batchtest.Robot, Protocol: "http", Path: path}
}

func (h *installation) accept(b *batchtest.Batch) *wire.Receipt {
	h.t.Helper()
	r, fresh, err := h.in.Acceptor.Accept(h.t.Context(), h.upload(b), b.Signed)
	testkit.Must(h.t, err)
	if !fresh || r.State != wire.StateReceived {
		h.t.Fatalf("fresh %v, receipt %+v", fresh, r)
	}
	return r
}

// await waits until a batch reaches a state.
func (h *installation) await(id wire.BatchID, want wire.State) (r *wire.Receipt) {
	h.t.Helper()
	testkit.Eventually(h.t, fmt.Sprintf("batch %s is %s", id, want), func() (err error) {
		r, err = h.in.Acceptor.Receipt(h.t.Context(), id)
		testkit.Must(h.t, err)
		if r == nil || r.State != want {
			return fmt.Errorf("it is %+v", r)
		}
		return nil
	})
	return r
}

// lines returns the published entries of a host.
func (h *installation) lines(host string) []catalog.SegmentEntry {
	h.t.Helper()
	s, err := h.cat.Pin(h.t.Context())
	testkit.Must(h.t, err)
	defer s.Release()
	lines, err := s.Host(h.t.Context(), host)
	testkit.Must(h.t, err)
	return lines
}

// verify reads a published segment and checks it against its entry.
func (h *installation) verify(l catalog.SegmentEntry) {
	h.t.Helper()
	r, err := h.store.Open(h.t.Context(), l.Object, l.Offset, l.Length)
	testkit.Must(h.t, err)
	defer r.Close()
	sum, err := archive.VerifySegment(r, archive.VerifyOptions{Host: l.Host})
	testkit.Must(h.t, err)
	if sum.SHA256 != l.SHA256 || sum.Records != l.Records || sum.IndexOffset != l.IndexOffset || sum.IndexLength != l.IndexLength || sum.Files != l.Files {
		h.t.Errorf("%s: stored %+v, line %+v", l.Host, sum, l)
	}
	for kind, v := range l.Views {
		if digest := archive.ViewKind(kind) != archive.Files; v.Size <= 0 || digest && len(v.SHA256) != 64 || v.ETag == "" { // of files only the size is measured
			h.t.Errorf("%s: view %s is %+v", l.Host, kind, v)
		}
	}
}

func TestBatchIsPublished(t *testing.T) {
	h := newInstallation(t).open().run()
	b := batchtest.Make(t, h.robots, 1, batchtest.Site("www.waseda.ac.jp", 20), batchtest.Site("a.example.jp:8080", 3))
	h.accept(b)
	r := h.await(b.ID, wire.StatePublished)
	if r.Edition == "" || r.Version == 0 || r.SHA256 != b.Manifest.SHA256 {
		t.Errorf("receipt %+v", r)
	}
	for i, name := range []string{"www.waseda.ac.jp", "a.example.jp:8080"} {
		lines := h.lines(name)
		if len(lines) != 1 {
			t.Fatalf("%s has %d lines", name, len(lines))
		}
		l := lines[0]
		h.verify(l)
		if want := "segments/" + naming.HostPath(name) + "/20261120-" + string(b.ID) + "-1.tar.gz"; l.Object != want {
			t.Errorf("object %s, want %s", l.Object, want)
		}
		if l.Batch != string(b.ID) || l.BatchSHA256 != b.Manifest.SHA256 || l.Robot != batchtest.Robot || l.Edition != r.Edition {
			t.Errorf("line %+v", l)
		}
		stored, err := h.store.Open(t.Context(), l.Object, 0, b.Manifest.Hosts[i].Length)
		testkit.Must(t, err)
		got, err := io.ReadAll(stored)
		testkit.Must(t, err)
		stored.Close()
		if !bytes.Equal(got, b.Data[b.Manifest.Hosts[i].Offset:][:len(got)]) {
			t.Errorf("%s: the stored range is not the batch's", name)
		}
	}
	kept, err := h.store.Open(t.Context(), "batches/"+string(b.ID)+".manifest", 0, -1)
	testkit.Must(t, err)
	defer kept.Close()
	if data, _ := io.ReadAll(kept); !bytes.Equal(data, b.Signed) {
		t.Error("the manifest that is kept is not the one that was signed")
	}
	testkit.Until(t, "the batch's file is collected", func() bool {
		_, err := os.Stat(filepath.Join(h.opt.Dir, "batches", string(b.ID)))
		return os.IsNotExist(err)
	})
}

// A robot's clock was wrong, so the times of its pages are. Its batch says so; its manifest tells
// the hosts when its file is gone, too.
func TestWrongTimesAreToldOfABatch(t *testing.T) {
	h := newInstallation(t).open().run()
	b := batchtest.Make(t, h.robots, 1, batchtest.Site("h.example.jp", 2))
	b.Manifest.Clock = &wire.Clock{OffsetMS: -(2 * time.Hour).Milliseconds(), ErrorMS: 40}
	*b = *h.robots.Reframe(t, b, b.Range(0))
	h.accept(b)
	h.await(b.ID, wire.StatePublished)
	testkit.Until(t, "the batch's file is collected", func() bool {
		_, err := os.Stat(filepath.Join(h.opt.Dir, "batches", string(b.ID)))
		return os.IsNotExist(err)
	})
	row, err := h.in.Batch(t.Context(), string(b.ID))
	testkit.Must(t, err)
	if row.Detail != "the robot's clock was 2h0m0s behind: the times of the records are too early by as much" {
		t.Errorf("detail %q", row.Detail)
	}
	if m, err := h.in.Manifest(t.Context(), row); err != nil || len(m.Hosts) != 1 || m.Hosts[0].Name != "h.example.jp" {
		t.Errorf("%v, manifest %+v", err, m)
	}
}

func TestSameBatchAgain(t *testing.T) {
	h := newInstallation(t).open().run()
	b := batchtest.Make(t, h.robots, 1, batchtest.Site("h.example.jp", 2))
	h.accept(b)
	h.await(b.ID, wire.StatePublished)
	r, fresh, err := h.in.Acceptor.Accept(t.Context(), h.upload(b), b.Signed)
	testkit.Must(t, err)
	if fresh || r.State != wire.StatePublished {
		t.Errorf("fresh %v, receipt %+v; want the old one, published", fresh, r)
	}
	other := batchtest.Make(t, h.robots, 1, batchtest.Site("h.example.jp", 3))
	_, _, err = h.in.Acceptor.Accept(t.Context(), h.upload(other), other.Signed)
	wantRefusal(t, err, wire.ReasonIDReuse)
	if r, _ := h.in.Acceptor.Receipt(t.Context(), b.ID); r.State != wire.StatePublished || r.SHA256 != b.Manifest.SHA256 {
		t.Errorf("the old batch was touched: %+v", r)
	}
	kept, _ := filepath.Glob(filepath.Join(h.opt.Dir, "quarantine", string(b.ID)+"+*", "batch.tar.gz"))
	if len(kept) != 1 {
		t.Fatalf("quarantine holds %v", kept)
	}
	if data, _ := os.ReadFile(kept[0]); !bytes.Equal(data, other.Data) {
		t.Error("the quarantine does not hold the newcomer")
	}
	if len(h.lines("h.example.jp")) != 1 {
		t.Error("published more than once")
	}
}

// A batch whose files take long to place does not hold up other batches.
func TestBatchesAreAcceptedAtOnce(t *testing.T) {
	h := newInstallation(t)
	placing, going := make(chan string), make(chan struct{})
	h.opt.Boundary = func(write, when string) {
		if write == inbox.BoundaryPlace && when == "before" {
			select {
			case placing <- write:
				<-going
			case <-going:
			}
		}
	}
	h.open()
	var uploads sync.WaitGroup
	for n := range 8 {
		b := batchtest.Make(t, h.robots, int64(n+1), batchtest.Site(fmt.Sprintf("h%d.example.jp", n), 1))
		upload := h.upload(b)
		uploads.Go(func() {
			if _, _, err := h.in.Acceptor.Accept(t.Context(), upload, b.Signed); err != nil {
				t.Error(err)
			}
		})
	}
	for range 2 {
		testkit.Receive(t, "a batch that is being placed", placing)
	}
	close(going)
	uploads.Wait()
}

func wantRefusal(t *testing.T, err error, want wire.Reason) {
	t.Helper()
	var r *inbox.Refusal
	if !errors.As(err, &r) || r.Reason != want {
		t.Fatalf("got %v, want a refusal with %s", err, want)
	}
}

func TestAcceptRefuses(t *testing.T) {
	h := newInstallation(t).open()
	b := batchtest.Make(t, h.robots, 1, batchtest.Site("h.example.jp", 2))
	t.Run("bad signature", func(t *testing.T) {
		forged := batchtest.NewRobots(t).Sign(t, &batchtest.Batch{ID: b.ID, Data: b.Data, Manifest: b.Manifest})
		_, _, err := h.in.Acceptor.Accept(t.Context(), h.upload(forged), forged.Signed)
		wantRefusal(t, err, wire.ReasonBadSignature)
	})
	t.Run("not whole", func(t *testing.T) {
		cut := &batchtest.Batch{ID: b.ID, Data: b.Data[:len(b.Data)-1]}
		_, _, err := h.in.Acceptor.Accept(t.Context(), h.upload(cut), b.Signed)
		var inc *inbox.Incomplete
		if !errors.As(err, &inc) || inc.Have != inc.Want-1 {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("no upload", func(t *testing.T) {
		var inc *inbox.Incomplete
		if _, _, err := h.in.Acceptor.Accept(t.Context(), accept.Upload{Batch: b.ID, Robot: batchtest.Robot}, b.Signed); !errors.As(err, &inc) {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("another batch's manifest", func(t *testing.T) {
		if _, _, err := h.in.Acceptor.Accept(t.Context(), accept.Upload{Batch: batchtest.ID(9), Robot: batchtest.Robot}, b.Signed); !errors.Is(err, accept.ErrMalformed) {
			t.Fatalf("got %v", err)
		}
	})
	if r, _ := h.in.Acceptor.Receipt(t.Context(), b.ID); r != nil {
		t.Errorf("the batch counts as accepted: %+v", r)
	}
	h.accept(b) // nothing of the above prevents the good one
}

func TestQuarantine(t *testing.T) {
	flip := func(b *batchtest.Batch) { b.Data[len(b.Data)/3] ^= 0x40 }
	for name, c := range map[string]struct {
		want  wire.Reason
		spoil func(t *testing.T, h *installation, b *batchtest.Batch)
	}{
		"damaged on the way": {wire.ReasonSHAMismatch, func(t *testing.T, h *installation, b *batchtest.Batch) { flip(b) }},
		"made corrupt": {wire.ReasonCorruptMember, func(t *testing.T, h *installation, b *batchtest.Batch) {
			flip(b)
			h.robots.Resign(t, b)
		}},
		"host's digest wrong": {wire.ReasonSHAMismatch, func(t *testing.T, h *installation, b *batchtest.Batch) {
			b.Manifest.Hosts[1].SHA256 = strings.Repeat("0", 64)
			h.robots.Resign(t, b)
		}},
		"cut short": {wire.ReasonTruncated, func(t *testing.T, h *installation, b *batchtest.Batch) {
			b.Data = b.Data[:len(b.Data)-len(archive.EndMember(0, 0))]
			h.robots.Resign(t, b)
		}},
		"from the future": {wire.ReasonClock, func(t *testing.T, h *installation, b *batchtest.Batch) {
			b.Manifest.Created = time.Now().Add(48 * time.Hour)
			h.robots.Resign(t, b)
		}},
		"another manifest inside": {wire.ReasonSHAMismatch, func(t *testing.T, h *installation, b *batchtest.Batch) {
			b.Manifest.Version = "another"
			h.robots.Resign(t, b)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newInstallation(t).open().run()
			bad := batchtest.Make(t, h.robots, 1, batchtest.Site("one.example.jp", 5), batchtest.Site("two.example.jp", 5))
			c.spoil(t, h, bad)
			h.accept(bad)
			good := batchtest.Make(t, h.robots, 2, batchtest.Site("three.example.jp", 1))
			h.accept(good)
			r := h.await(bad.ID, wire.StateQuarantined)
			if r.Reason != c.want || r.Detail == "" {
				t.Errorf("reason %s (%s), want %s", r.Reason, r.Detail, c.want)
			}
			h.await(good.ID, wire.StatePublished)
			if len(h.lines("one.example.jp")) != 0 {
				t.Error("a host of a quarantined batch is public")
			}
			dir := filepath.Join(h.opt.Dir, "quarantine", string(bad.ID))
			testkit.Until(t, "the batch is moved aside", func() bool { _, err := os.Stat(dir); return err == nil })
			for file, want := range map[string][]byte{"batch.tar.gz": bad.Data, "manifest": bad.Signed} {
				if data, err := os.ReadFile(filepath.Join(dir, file)); !bytes.Equal(data, want) {
					t.Errorf("%s in quarantine is not what came (%v)", file, err)
				}
			}
			if data, _ := os.ReadFile(filepath.Join(dir, "reason.json")); !bytes.Contains(data, []byte(c.want)) {
				t.Errorf("reason.json is %s", data)
			}
		})
	}
}

// TestExpress: an express batch is published while the window is shut, and no other batch with it.
func TestExpress(t *testing.T) {
	h := newInstallation(t)
	h.opt.Window = window.Never()
	h.open().run()
	day := batchtest.Make(t, h.robots, 1, batchtest.Site("day.example.jp", 1))
	h.accept(day)
	h.await(day.ID, wire.StatePostSplit)
	h.robots.Express = true
	urgent := batchtest.Make(t, h.robots, 2, batchtest.Site("urgent.example.jp", 1))
	h.accept(urgent)
	h.await(urgent.ID, wire.StatePublished)
	if h.await(day.ID, wire.StatePostSplit); len(h.lines("day.example.jp")) != 0 {
		t.Error("an ordinary batch was published outside the window")
	}
}

func TestPublishWindow(t *testing.T) {
	h := newInstallation(t)
	h.opt.Window = window.Never()
	h.open().run()
	one := batchtest.Make(t, h.robots, 1, batchtest.Site("one.example.jp", 1))
	two := batchtest.Make(t, h.robots, 2, batchtest.Site("two.example.jp", 1))
	h.accept(one)
	h.accept(two)
	h.await(one.ID, wire.StatePostSplit)
	h.await(two.ID, wire.StatePostSplit)
	if h.await(one.ID, wire.StatePostSplit); len(h.lines("one.example.jp")) != 0 {
		t.Fatal("published outside the window")
	}
	v, n, err := h.in.Publisher.Now(t.Context())
	testkit.Must(t, err)
	a, b := h.await(one.ID, wire.StatePublished), h.await(two.ID, wire.StatePublished)
	if n != 2 || a.Edition != v.Edition || b.Edition != v.Edition || a.Version != b.Version {
		t.Errorf("%d batches, %+v, %+v; want both in one edition %+v", n, a, b, v)
	}
}
