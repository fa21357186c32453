package crash

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jlaffaye/ftp"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/robotd/batch"
	"sheaf/test/batchtest"
)

// page is one page of a batch: its host, URL and body.
type page struct {
	host, url string
	body      []byte
}

// madeBatch is a batch and what is in it.
type madeBatch struct {
	*batchtest.Batch
	pages []page
	bad   bool // not to be published
}

// make builds the robot's n-th batch with that many pages of each host. Bodies hardly compress, so
// a batch is about as large as its pages.
func (r *robot) make(t testing.TB, n int64, pages, size int, hosts ...string) *madeBatch {
	t.Helper()
	c := new(madeBatch)
	random := rand.New(rand.NewPCG(testkit.Random(t).Uint64(), 0))
	var shares []batchtest.Host
	for _, name := range hosts {
		var list []batchtest.Page
		for i := range pages {
			body := make([]byte, size)
			for j := range body {
				body[j] = byte(random.Uint32())
			}
			p := batchtest.Page{Path: fmt.Sprintf("/%s/%d/%d.bin", r.Name, n, i), Body: append(body, fmt.Sprintf("%s %d %d", name, n, i)...)}
			list = append(list, p)
			c.pages = append(c.pages, page{name, "http://" + name + p.Path, p.Body})
		}
		shares = append(shares, batchtest.Host{Name: name, Each: func(yield func(batchtest.Page) bool) {
			for _, p := range list {
				if !yield(p) {
					return
				}
			}
		}})
	}
	c.Batch = batchtest.Make(t, r.Robots, n, shares...)
	return c
}

// damage changes a byte of the batch, as on its way; the manifest stays that of the original.
func (c *madeBatch) damage() *madeBatch {
	c.Data = bytes.Clone(c.Data)
	c.Data[len(c.Data)/3] ^= 1
	c.bad = true
	return c
}

// spool holds batches for robotd's uploader, and records their ends.
type spool struct {
	dir string

	mu        sync.Mutex // guards what follows
	batches   []batch.Spooled
	published map[wire.BatchID]int // times that each was taken out
	aside     map[wire.BatchID]int
}

func newSpool(t testing.TB) *spool {
	return &spool{dir: t.TempDir(), published: map[wire.BatchID]int{}, aside: map[wire.BatchID]int{}}
}

func (s *spool) add(c *madeBatch) error {
	b := batch.Spooled{ID: c.ID, Path: filepath.Join(s.dir, string(c.ID)+".tar.gz"), Size: c.Manifest.Size, SHA256: c.Manifest.SHA256, Signed: c.Signed}
	if err := os.WriteFile(b.Path, c.Data, 0o600); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = append(s.batches, b)
	return nil
}

func (s *spool) Spool() ([]batch.Spooled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]batch.Spooled(nil), s.batches...), nil
}

func (s *spool) leave(id wire.BatchID, to map[wire.BatchID]int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	to[id]++
	for i, b := range s.batches {
		if b.ID == id {
			s.batches = append(s.batches[:i:i], s.batches[i+1:]...)
			return os.Remove(b.Path)
		}
	}
	return fmt.Errorf("batch %s has left the spool before", id)
}

func (s *spool) Remove(id wire.BatchID) error               { return s.leave(id, s.published) }
func (s *spool) Quarantine(id wire.BatchID, _ string) error { return s.leave(id, s.aside) }

// way is how a robot uploads its batches.
type way string

const (
	byHTTP   way = "http"     // robotd's own: tus
	byFTP    way = "ftp"      // robotd's own: STOR, resumed by REST
	cutHTTP  way = "http cut" // the first connection for a body breaks in the middle
	byAppend way = "ftp append"

	byBareFTP way = "ftp bare" // no manifest, ever
)

// uploader returns robotd's uploader over the robot's spool, with short pauses.
func (h *installation) uploader(r *robot, s *spool, by way) *batch.Uploader {
	desk := h.desk(r)
	return batch.NewUploader(batch.UploaderOptions{Spool: s, Targets: []batch.Target{h.target(r, desk, by)}, Receipts: desk, Poll: 50 * time.Millisecond, BackOff: 10 * time.Millisecond, BackOffMax: 100 * time.Millisecond})
}

// desk returns the robot's source of receipts.
func (h *installation) desk(r *robot) *batch.HTTP {
	return &batch.HTTP{Base: h.url(), Robot: r.Name, Secret: r.secret, Key: wire.OneKey(r.server), Client: &http.Client{
		Transport: &http.Transport{ResponseHeaderTimeout: testkit.Patience}, Timeout: testkit.Patience,
	}}
}

// target returns where the robot uploads to.
func (h *installation) target(r *robot, desk *batch.HTTP, by way) batch.Target {
	drop := h.settings["drop.listen"].(string)
	switch by {
	case byFTP:
		return &batch.FTP{Addr: drop, Robot: r.Name, Secret: r.secret, Timeout: testkit.Patience}
	case byBareFTP:
		return &barer{addr: drop, robot: r}
	case byAppend:
		return &appender{addr: drop, robot: r}
	case cutHTTP:
		cut := *desk
		cut.Client = &http.Client{Transport: &http.Transport{DialContext: (&cutter{random: testkit.Random(h.t), left: 1}).dial, DisableKeepAlives: true}, Timeout: testkit.Patience}
		return &cut
	}
	return desk
}

// cutter breaks some connections after a part of the data.
type cutter struct {
	random *rand.Rand

	mu   sync.Mutex // guards what follows
	left int        // connections still to be broken
	odds float64    // that a later one is broken
}

// cutAfter is the maximum number of bytes over a broken connection.
const cutAfter = 30_000

func (c *cutter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &cutConn{Conn: conn, cutter: c, budget: cutAfter/2 + c.random.IntN(cutAfter/2), ended: make(chan struct{})}, nil
}

func (c *cutter) cuts() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left > 0 {
		c.left--
		return true
	}
	return c.random.Float64() < c.odds
}

// cutConn breaks when its budget is used up: it sends no more, and ends when the server has seen
// that, so that what has arrived is counted before the robot goes on. Short exchanges never use it
// up.
type cutConn struct {
	net.Conn
	cutter *cutter
	budget int
	spared bool
	cut    atomic.Bool
	end    sync.Once
	ended  chan struct{} // closed when the server has ended a cut connection, or the client has closed it
}

func (c *cutConn) Write(p []byte) (int, error) {
	if c.cut.Load() {
		return 0, errCut
	}
	if c.spared || len(p) <= c.budget {
		c.budget -= len(p)
		return c.Conn.Write(p)
	}
	if c.spared = !c.cutter.cuts(); c.spared {
		return c.Conn.Write(p)
	}
	n, err := c.Conn.Write(p[:c.budget])
	c.cut.Store(true)
	if err == nil {
		err = c.Conn.(*net.TCPConn).CloseWrite()
	}
	if err == nil {
		<-c.ended
		err = errCut
	}
	return n, err
}

// Read hides from the client what the server answers to a cut request.
func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.cut.Load() {
		return n, err
	}
	if err == nil {
		io.Copy(io.Discard, c.Conn)
	}
	c.end.Do(func() { close(c.ended) })
	return 0, errCut
}

func (c *cutConn) Close() error {
	defer c.end.Do(func() { close(c.ended) })
	return c.Conn.Close()
}

// appender uploads a batch by FTP in two parts: by STOR, and by APPE for what the server does not
// have.
type appender struct {
	addr  string
	robot *robot
}

// Name is for the log.
func (a *appender) Name() string { return "ftp append" }

func (a *appender) Send(ctx context.Context, b batch.Spooled) error {
	conn, err := ftp.Dial(a.addr, ftp.DialWithContext(ctx), ftp.DialWithTimeout(testkit.Patience))
	if err != nil {
		return err
	}
	defer conn.Quit()
	if err := conn.Login(a.robot.Name, a.robot.secret); err != nil {
		return err
	}
	data, err := os.ReadFile(b.Path)
	if err != nil {
		return err
	}
	name := string(b.ID) + ".tar.gz"
	have, err := conn.FileSize(name)
	if err != nil {
		if err := conn.Stor(name, bytes.NewReader(data[:len(data)/2])); err != nil {
			return err
		}
		have = int64(len(data) / 2)
	}
	if have < b.Size {
		if err := conn.Append(name, bytes.NewReader(data[have:])); err != nil {
			return err
		}
	}
	return conn.Stor(string(b.ID)+".manifest", bytes.NewReader(b.Signed))
}

// barer uploads a batch by FTP and never its manifest, as old robots do.
type barer struct {
	addr  string
	robot *robot
}

// Name is for the log.
func (a *barer) Name() string { return "ftp bare" }

func (a *barer) Send(ctx context.Context, b batch.Spooled) error {
	conn, err := ftp.Dial(a.addr, ftp.DialWithContext(ctx), ftp.DialWithTimeout(testkit.Patience))
	if err != nil {
		return err
	}
	defer conn.Quit()
	if err := conn.Login(a.robot.Name, a.robot.secret); err != nil {
		return err
	}
	name := string(b.ID) + ".tar.gz"
	if have, err := conn.FileSize(name); err == nil && have == b.Size {
		return nil // it waits until the file is quiet
	}
	data, err := os.ReadFile(b.Path)
	if err != nil {
		return err
	}
	return conn.Stor(name, bytes.NewReader(data))
}
