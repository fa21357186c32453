package receive_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/mux"
	ftpclient "github.com/jlaffaye/ftp"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/ingest"
	"sheaf/ingest/foreign"
	"sheaf/ingest/inbox"
	"sheaf/ingest/receive"
	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/files"
	"sheaf/internal/ftp"
	"sheaf/internal/servicekey"
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"
)

// house is the receiving side with all that is behind it.
type house struct {
	t      testing.TB
	robots *batchtest.Robots
	key    ed25519.PublicKey
	in     *ingest.Ingest
	rec    *receive.Receiver
	cat    *catalog.Catalog
	log    *transfers.Log
	opt    receive.Options
	url    string
	server *httptest.Server
	ended  atomic.Int64 // PATCH requests that the server is done with

	mu     sync.Mutex               // guards what follows
	free   int64                    // of 1000 MiB
	writes func(write, when string) // called at ingest's durable writes; may be nil
}

const disk = 1000 << 20

func newHouse(t testing.TB) *house { return newBare(t, 10*time.Millisecond).open() }

// newBare is a house whose receiver is still to be opened.
func newBare(t testing.TB, poll time.Duration) *house {
	h := &house{t: t, robots: batchtest.NewRobots(t), free: disk}
	dir := t.TempDir()
	st, err := store.OpenFS(filepath.Join(dir, "objects"))
	testkit.Must(t, err)
	database, err := db.Open(t.Context(), dbtest.Source(t))
	testkit.Must(t, err)
	cat, err := catalog.Open(t.Context(), st, catalog.Options{})
	testkit.Must(t, err)
	h.cat = cat
	public, key, _ := ed25519.GenerateKey(nil)
	h.key, h.log = public, transfers.New(database)
	h.in, err = ingest.New(t.Context(), ingest.Options{
		ForeignHosts: foreign.HostMap{"1f3a9c": "hashed.example.jp"},
		DB:           database, Dir: filepath.Join(dir, "buffers"), Store: st, Catalog: cat, Robots: h.robots, Key: servicekey.Fixed(key),
		Limits: ingest.Limits{Poll: poll},
		Boundary: func(write, when string) {
			h.mu.Lock()
			writes := h.writes
			h.mu.Unlock()
			if writes != nil {
				writes(write, when)
			}
		},
	})
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { h.in.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait(); database.Close(); st.Close() })
	h.opt = receive.Options{Dir: filepath.Join(dir, "buffers"), Batches: h.in.Acceptor, Robots: h.robots, Transfers: h.log,
		Disks: []inbox.Disk{{Name: "the disk", Space: h.space, Buffers: true}}}
	return h
}

func (h *house) space() (files.Room, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return files.Room{Bytes: disk, Free: h.free}, nil
}

func (h *house) setFree(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.free = n
}

// onWrite has f called before and after each of ingest's durable writes; nil: nothing.
func (h *house) onWrite(f func(write, when string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes = f
}

// openOnly is open without a server.
func (h *house) openOnly() {
	h.t.Helper()
	var err error
	h.rec, err = receive.New(h.t.Context(), h.opt)
	testkit.Must(h.t, err)
}

// open makes the receiver anew, as a start of the service does.
func (h *house) open() *house {
	h.t.Helper()
	if h.server != nil {
		h.server.Close() // two receivers at once would write to one upload
	}
	h.openOnly()
	router := mux.NewRouter()
	testkit.Must(h.t, h.rec.Register(router))
	h.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		router.ServeHTTP(w, r)
		if r.Method == http.MethodPatch {
			h.ended.Add(1)
		}
	}))
	h.t.Cleanup(h.server.Close)
	h.url = h.server.URL
	return h
}

func (h *house) do(method, path string, body io.Reader, header ...string) *http.Response {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, body)
	testkit.Must(h.t, err)
	req.SetBasicAuth(batchtest.Robot, batchtest.Secret)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	testkit.Must(h.t, err)
	data, err := io.ReadAll(res.Body)
	testkit.Must(h.t, err)
	res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(data))
	return res
}

func (h *house) want(res *http.Response, status int) *http.Response {
	h.t.Helper()
	if res.StatusCode != status {
		body, _ := io.ReadAll(res.Body)
		h.t.Fatalf("%s %s: %s %s; want %d", res.Request.Method, res.Request.URL.Path, res.Status, body, status)
	}
	return res
}

// tus headers of a request.
func tus(more ...string) []string { return append([]string{"Tus-Resumable", "1.0.0"}, more...) }

func (h *house) create(b *batchtest.Batch) *http.Response {
	return h.do("POST", wire.PathUploads, nil, tus("Upload-Length", strconv.Itoa(len(b.Data)),
		"Upload-Metadata", "batch "+base64Of(b.ID))...)
}

func base64Of(id wire.BatchID) string { return base64.StdEncoding.EncodeToString([]byte(id)) }

func (h *house) offset(b *batchtest.Batch) int {
	h.t.Helper()
	res := h.want(h.do("HEAD", wire.PathUploads+string(b.ID), nil, tus()...), 200)
	n, err := strconv.Atoi(res.Header.Get("Upload-Offset"))
	testkit.Must(h.t, err)
	return n
}

func (h *house) patch(b *batchtest.Batch, from int, body io.Reader) *http.Response {
	return h.do("PATCH", wire.PathUploads+string(b.ID), body, tus("Content-Type", "application/offset+octet-stream", "Upload-Offset", strconv.Itoa(from))...)
}

func (h *house) putManifest(b *batchtest.Batch) *http.Response {
	return h.do("PUT", "/v1/batches/"+string(b.ID)+"/manifest", bytes.NewReader(b.Signed))
}

func (h *house) receipt(data io.Reader) *wire.Receipt {
	h.t.Helper()
	raw, err := io.ReadAll(data)
	testkit.Must(h.t, err)
	r, err := wire.OpenReceipt(raw, h.key)
	testkit.Must(h.t, err)
	return r
}

func (h *house) awaitPublished(b *batchtest.Batch) {
	h.t.Helper()
	h.awaitState(b, wire.StatePublished)
}

func (h *house) awaitState(b *batchtest.Batch, want wire.State) {
	h.t.Helper()
	testkit.Eventually(h.t, "the batch is "+string(want), func() error {
		r := h.receipt(h.want(h.do("GET", "/v1/batches/"+string(b.ID)+"/receipt", nil), 200).Body)
		if r.State != want {
			return fmt.Errorf("the receipt is %+v", r)
		}
		return nil
	})
}

func (h *house) reason(res *http.Response) string {
	h.t.Helper()
	var p wire.Problem
	if err := json.NewDecoder(res.Body).Decode(&p); err != nil || res.Header.Get("Content-Type") != "application/problem+json" {
		h.t.Fatalf("%s is no problem+json: %v", res.Status, err)
	}
	return p.Reason
}

// torn is a body whose connection breaks after its bytes.
type torn struct{ r io.Reader }

var errTorn = errors.New("the line is cut")

func (c torn) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if err == io.EOF {
		err = errTorn
	}
	return n, err
}

// cut sends the bytes from..to of a batch and breaks the connection.
func (h *house) cut(b *batchtest.Batch, from, to int) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), "PATCH", h.url+wire.PathUploads+string(b.ID), torn{bytes.NewReader(b.Data[from:to])})
	testkit.Must(h.t, err)
	req.ContentLength = int64(len(b.Data) - from)
	req.SetBasicAuth(batchtest.Robot, batchtest.Secret)
	req.Header.Set("Tus-Resumable", "1.0.0")
	req.Header.Set("Content-Type", "application/offset+octet-stream")
	req.Header.Set("Upload-Offset", strconv.Itoa(from))
	if res, err := http.DefaultClient.Do(req); err == nil {
		res.Body.Close()
	}
}

func TestHTTP(t *testing.T) {
	h := newHouse(t)
	b := batchtest.Make(t, h.robots, 1, batchtest.Site("h.example.jp", 40))
	h.want(h.do("GET", "/v1/batches/"+string(b.ID)+"/receipt", nil), 404)
	res := h.want(h.create(b), 201)
	if loc := res.Header.Get("Location"); loc != h.url+wire.PathUploads+string(b.ID) {
		t.Errorf("location %s", loc)
	}
	if n := h.offset(b); n != 0 {
		t.Errorf("offset %d of a new upload", n)
	}
	at := 0
	for _, to := range []int{1, 1000, len(b.Data) / 2} {
		h.cut(b, at, to)
		kept := h.offset(b) // it stops a writer that has not noticed the cut, so perhaps not all that was sent
		if kept < at || kept > to {
			t.Fatalf("%d bytes are kept, %d were before and %d were sent", kept, at, to)
		}
		at = kept
		if res := h.want(h.putManifest(b), 409); h.reason(res) != "incomplete" {
			t.Error("a cut upload is not called incomplete")
		}
	}
	if res := h.want(h.patch(b, at+1, bytes.NewReader(b.Data[at+1:])), 409); h.reason(res) != "mismatched_offset" {
		t.Error("a wrong offset is not called so")
	}
	h.open()            // a restart
	kept := h.offset(b) // more than was told, where the last cut reached the server after the question
	if kept < at {
		t.Fatal("a restart has lost bytes that were promised")
	}
	at = kept
	h.want(h.patch(b, at, bytes.NewReader(b.Data[at:])), 204)
	r := h.receipt(h.want(h.putManifest(b), 202).Body)
	if r.State != wire.StateReceived || r.SHA256 != b.Manifest.SHA256 {
		t.Errorf("receipt %+v", r)
	}
	h.awaitPublished(b)
	if r := h.receipt(h.want(h.putManifest(b), 200).Body); r.State != wire.StatePublished {
		t.Errorf("receipt of the second time %+v", r)
	}
	list, err := h.log.List(t.Context(), transfers.Filter{Who: batchtest.Robot})
	testkit.Must(t, err)
	var sum int64
	for _, x := range list {
		sum += x.Bytes
	}
	if len(list) == 0 || sum != int64(len(b.Data)) || list[0].Protocol != "http" {
		t.Errorf("transfers %+v of %d bytes", list, len(b.Data))
	}
}

func TestIDReuse(t *testing.T) {
	h := newHouse(t)
	for n, b := range []*batchtest.Batch{
		batchtest.Make(t, h.robots, 1, batchtest.Site("h.example.jp", 4)),
		batchtest.Make(t, h.robots, 1, batchtest.Site("h.example.jp", 5)),
	} {
		h.want(h.create(b), 201)
		h.want(h.patch(b, 0, bytes.NewReader(b.Data)), 204)
		if n == 0 {
			h.want(h.putManifest(b), 202)
			h.awaitPublished(b)
			continue
		}
		if got := h.reason(h.want(h.putManifest(b), 409)); got != "id_reuse" {
			t.Errorf("reason %s", got)
		}
		h.want(h.do("HEAD", wire.PathUploads+string(b.ID), nil, tus()...), 404)
	}
}

func TestHTTPRefuses(t *testing.T) {
	h := newHouse(t)
	b := batchtest.Make(t, h.robots, 1, batchtest.Site("h.example.jp", 4))
	t.Run("wrong secret", func(t *testing.T) {
		res, err := http.Get(h.url + "/v1/batches/" + string(b.ID) + "/receipt")
		testkit.Must(t, err)
		res.Body.Close()
		if res.StatusCode != 401 || res.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s %v", res.Status, res.Header)
		}
	})
	t.Run("another's batch", func(t *testing.T) {
		foreign := &batchtest.Batch{ID: "waseda-2-20261120T150405Z-1", Data: b.Data}
		if got := h.reason(h.want(h.create(foreign), 403)); got != "not_yours" {
			t.Errorf("reason %s", got)
		}
	})
	t.Run("no room", func(t *testing.T) {
		h.setFree(disk*15/100 + 10)
		defer h.setFree(disk)
		res := h.want(h.create(b), 507)
		if n, err := strconv.Atoi(res.Header.Get("Retry-After")); err != nil || n < 1 || h.reason(res) != "no_space" {
			t.Errorf("%v", res.Header)
		}
		h.setFree(disk * 20 / 100)
		h.want(h.create(b), 503) // it drains first
		h.setFree(disk * 30 / 100)
		h.want(h.create(b), 201)
	})
	t.Run("terminated", func(t *testing.T) {
		h.want(h.create(b), 201)
		h.want(h.do("DELETE", wire.PathUploads+string(b.ID), nil, tus()...), 204)
		h.want(h.do("HEAD", wire.PathUploads+string(b.ID), nil, tus()...), 404)
	})
}

// serveFTP runs the drop until the test ends.
func (h *house) serveFTP(cfg ftp.Config) (addr string) {
	h.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(h.t, err)
	cfg.Listener, cfg.StopTimeout, cfg.Log = l, time.Millisecond, slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { ftp.Run(ctx, cfg, h.rec.FTP()) })
	h.t.Cleanup(func() { cancel(); running.Wait() })
	return l.Addr().String()
}

func (h *house) dial() *ftpclient.ServerConn {
	h.t.Helper()
	c, err := ftpclient.Dial(h.serveFTP(ftp.Config{}), ftpclient.DialWithTimeout(testkit.Patience))
	testkit.Must(h.t, err)
	testkit.Must(h.t, c.Login(batchtest.Robot, batchtest.Secret))
	return c
}

func TestFTP(t *testing.T) {
	h := newHouse(t)
	c := h.dial()
	defer c.Quit()
	b := batchtest.Make(t, h.robots, 1, batchtest.Site("h.example.jp", 40))
	name, half := string(b.ID)+".tar.gz", len(b.Data)/2
	testkit.Must(t, c.Stor(name, bytes.NewReader(b.Data[:half])))
	if err := c.Stor(string(b.ID)+".manifest", bytes.NewReader(b.Signed)); err == nil {
		t.Fatal("half a batch was accepted")
	}
	n, err := c.FileSize(name)
	testkit.Must(t, err)
	if n != int64(half) {
		t.Fatalf("SIZE %d, want %d", n, half)
	}
	testkit.Must(t, c.StorFrom(name, bytes.NewReader(b.Data[half:half+100]), uint64(half)))
	testkit.Must(t, c.Append(name, bytes.NewReader(b.Data[half+100:])))
	if _, err := c.Retr(name); err == nil {
		t.Error("the drop can be read")
	}
	if err := c.Stor("other-20261120T150405Z-1.tar.gz", bytes.NewReader(b.Data)); err == nil {
		t.Error("another robot's batch was accepted")
	}
	testkit.Must(t, c.Stor(string(b.ID)+".manifest", bytes.NewReader(b.Signed)))
	h.awaitPublished(b)
	res, err := c.Retr(string(b.ID) + ".receipt")
	testkit.Must(t, err)
	if r := h.receipt(res); r.State != wire.StatePublished {
		t.Errorf("receipt %+v", r)
	}
	testkit.Must(t, res.Close())
	totals, err := h.log.Totals(t.Context(), transfers.Filter{Who: batchtest.Robot})
	testkit.Must(t, err)
	if len(totals) != 1 || totals[0].Bytes != int64(len(b.Data)) || totals[0].Protocol != "ftp" {
		t.Errorf("totals %+v of %d bytes", totals, len(b.Data))
	}
}

// The same batch by both ways at once is accepted once.
func TestBothWaysAtOnce(t *testing.T) {
	h := newHouse(t)
	c := h.dial()
	defer c.Quit()
	b := batchtest.Make(t, h.robots, 1, batchtest.Site("h.example.jp", 4))
	h.want(h.create(b), 201)
	h.want(h.patch(b, 0, bytes.NewReader(b.Data)), 204)
	testkit.Must(t, c.Stor(string(b.ID)+".tar.gz", bytes.NewReader(b.Data)))
	var both sync.WaitGroup
	both.Go(func() {
		if err := c.Stor(string(b.ID)+".manifest", bytes.NewReader(b.Signed)); err != nil {
			t.Error(err)
		}
	})
	if res := h.putManifest(b); res.StatusCode != 200 && res.StatusCode != 202 {
		t.Error(res.Status)
	}
	both.Wait()
	h.awaitPublished(b)
	if left, _ := filepath.Glob(filepath.Join(h.opt.Dir, "receive", "*")); len(left) != 0 {
		t.Errorf("uploads are left: %v", left)
	}
}
