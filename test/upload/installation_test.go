// Package upload_test tests a robot's uploader with the service's receiver, over real connections:
// the two rooms meet only here.
package upload_test

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/ingest"
	"sheaf/ingest/inbox"
	"sheaf/ingest/receive"
	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/ftp"
	"sheaf/internal/servicekey"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/robotd/batch"
	"sheaf/test/batchtest"
)

// installation is a service that accepts batches, and a robot's spool.
type installation struct {
	t       testing.TB
	robots  *batchtest.Robots
	key     ed25519.PublicKey
	in      *ingest.Ingest
	rec     *receive.Receiver
	cat     *catalog.Catalog
	router  http.Handler
	url     string // of HTTP
	ftp     string // host:port of FTP
	buffers string
	spool   string
	log     lines
}

// setup says how an installation differs from the usual one.
type setup struct {
	dir      string // of the buffers, on a disk of its own; empty: a temporary one, to be used however full its disk is
	database string // URL or path; empty: one of its own
	store    string // directory of the store; empty: beside the buffers
	ftpTLS   *tls.Config
	ingest   func(*ingest.Options)
	receiver func(*receive.Options)
}

func newInstallation(t testing.TB, s setup) *installation {
	h := &installation{t: t, robots: batchtest.NewRobots(t), spool: t.TempDir()}
	dir := s.dir
	if dir == "" {
		dir = t.TempDir()
	}
	objects := s.store
	if objects == "" {
		objects = filepath.Join(dir, "objects")
	}
	st, err := store.OpenFS(objects)
	testkit.Must(t, err)
	source := s.database
	if source == "" {
		source = dbtest.Source(t)
	}
	database, err := db.Open(t.Context(), source)
	testkit.Must(t, err)
	h.cat, err = catalog.Open(t.Context(), st, catalog.Options{})
	testkit.Must(t, err)
	public, key, _ := ed25519.GenerateKey(nil)
	h.key = public
	h.buffers = filepath.Join(dir, "buffers")
	in := ingest.Options{
		DB: database, Dir: h.buffers, Store: st, Catalog: h.cat, Robots: h.robots, Key: servicekey.Fixed(key),
		Limits: ingest.Limits{Poll: 10 * time.Millisecond, BackoffMin: 10 * time.Millisecond, BackoffMax: 50 * time.Millisecond},
	}
	if s.ingest != nil {
		s.ingest(&in)
	}
	h.in, err = ingest.New(t.Context(), in)
	testkit.Must(t, err)
	disks, err := inbox.Disks(h.buffers, objects)
	testkit.Must(t, err)
	opt := receive.Options{Dir: h.buffers, Batches: h.in.Acceptor, Robots: h.robots, Disks: disks}
	if s.dir == "" {
		opt.Marks = inbox.Marks{Full: 1, Drained: 1}
	}
	if s.receiver != nil {
		s.receiver(&opt)
	}
	h.rec, err = receive.New(t.Context(), opt)
	testkit.Must(t, err)

	router := mux.NewRouter()
	testkit.Must(t, h.rec.Register(router))
	h.router = router
	server := httptest.NewServer(router)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { h.in.Run(ctx) })
	running.Go(func() {
		ftp.Run(ctx, ftp.Config{Listener: l, TLS: s.ftpTLS, StopTimeout: time.Millisecond, Log: slog.New(slog.DiscardHandler)}, h.rec.FTP())
	})
	t.Cleanup(func() { server.Close(); cancel(); running.Wait(); database.Close(); st.Close() })
	h.url, h.ftp = server.URL, l.Addr().String()
	return h
}

// put writes a batch into the robot's spool.
func (h *installation) put(b *batchtest.Batch) {
	h.t.Helper()
	dir := filepath.Join(h.spool, "spool")
	testkit.Must(h.t, os.MkdirAll(dir, 0o755))
	testkit.Must(h.t, os.WriteFile(filepath.Join(dir, string(b.ID)+".tar.gz"), b.Data, 0o644))
	testkit.Must(h.t, os.WriteFile(filepath.Join(dir, string(b.ID)+".manifest"), b.Signed, 0o644))
}

func (h *installation) service() *batch.HTTP {
	return &batch.HTTP{Base: h.url, Robot: batchtest.Robot, Secret: batchtest.Secret, Key: wire.OneKey(h.key), Client: &http.Client{Transport: &http.Transport{ExpectContinueTimeout: 10 * time.Second}}}
}

func (h *installation) drop() *batch.FTP {
	return &batch.FTP{Addr: h.ftp, Robot: batchtest.Robot, Secret: batchtest.Secret, Key: wire.OneKey(h.key)}
}

// way is a target that also returns receipts.
type way interface {
	batch.Target
	batch.ReceiptSource
}

// uploader returns the robot's uploader, over its spool and the ways to the service.
func (h *installation) uploader(ways ...way) *batch.Uploader {
	h.t.Helper()
	spool, err := batch.Open(h.spool, 1, batch.Options{Robot: batchtest.Robot, Key: h.robots.Key})
	testkit.Must(h.t, err)
	h.t.Cleanup(func() { spool.Close() })
	opt := batch.UploaderOptions{
		Spool: spool, Log: slog.New(slog.NewTextHandler(&h.log, nil)),
		Poll: 5 * time.Millisecond, BackOff: 5 * time.Millisecond, BackOffMax: 50 * time.Millisecond,
	}
	var desks []batch.ReceiptSource
	for _, w := range ways {
		opt.Targets, desks = append(opt.Targets, w), append(desks, w)
	}
	opt.Receipts = batch.NewReceiptSources(desks...)
	return batch.NewUploader(opt)
}

// drain uploads until the spool is empty.
func (h *installation) drain(ways ...way) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), testkit.Patience)
	defer cancel()
	if err := h.uploader(ways...).Drain(ctx); err != nil {
		h.t.Fatalf("%v\n%s", err, h.log.String())
	}
}

// aside returns the reason for which the robot has put a batch aside, or "".
func (h *installation) aside(id wire.BatchID) string {
	h.t.Helper()
	path := filepath.Join(h.spool, "spool", "quarantined", string(id))
	reason, err := os.ReadFile(path + ".reason")
	if os.IsNotExist(err) {
		return ""
	}
	testkit.Must(h.t, err)
	for _, suffix := range []string{".tar.gz", ".manifest"} {
		if _, err := os.Stat(path + suffix); err != nil {
			h.t.Errorf("put aside, but not kept: %v", err)
		}
	}
	return string(reason)
}

// wantPublished checks that a batch is public, once, and gone from the spool.
func (h *installation) wantPublished(b *batchtest.Batch) {
	h.t.Helper()
	r, err := h.in.Acceptor.Receipt(h.t.Context(), b.ID)
	testkit.Must(h.t, err)
	if r == nil || r.State != wire.StatePublished {
		h.t.Fatalf("batch %s: receipt %+v", b.ID, r)
	}
	s, err := h.cat.Pin(h.t.Context())
	testkit.Must(h.t, err)
	defer s.Release()
	for _, host := range b.Manifest.Hosts {
		got, err := s.Host(h.t.Context(), host.Name)
		testkit.Must(h.t, err)
		n := 0
		for _, line := range got {
			if line.Batch == string(b.ID) {
				n++
			}
		}
		if n != 1 {
			h.t.Errorf("%s of batch %s is published %d times", host.Name, b.ID, n)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(h.spool, "spool", string(b.ID)+"*")); len(left) > 0 {
		h.t.Errorf("published, but still in the spool: %v", left)
	}
}

// lines collects a log that many goroutines write.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
