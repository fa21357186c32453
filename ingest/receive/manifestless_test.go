package receive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/mux"

	"sheaf/ingest/inbox"
	"sheaf/ingest/receive"
	"sheaf/internal/ftp"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"
	"sheaf/test/operatorstest"
)

// drop is a house in a bubble of its own time, whose receiver takes files without manifest.
type drop struct {
	*house
	session ftp.Session
	stop    func() // of the receiver
}

func inDrop(t *testing.T, f func(t *testing.T, d *drop)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))) // a bubble begins in 2000
		d := &drop{house: newBare(t, time.Minute)}
		d.opt.Quiet = 10 * time.Minute
		d.start()
		f(t, d)
		d.stop()
	})
}

// start begins a life of the receiver.
func (d *drop) start() {
	d.t.Helper()
	var err error
	d.rec, err = receive.New(d.t.Context(), d.opt)
	testkit.Must(d.t, err)
	ctx, cancel := context.WithCancel(d.t.Context())
	var running sync.WaitGroup
	running.Go(func() { d.rec.Run(ctx) })
	d.stop = func() { cancel(); running.Wait() }
	d.session, err = d.rec.FTP().Login(d.t.Context(), batchtest.Robot, batchtest.Secret, &net.TCPAddr{})
	testkit.Must(d.t, err)
}

// put stores a file, or a part of it: whole as far as FTP can tell.
func (d *drop) put(name string, offset int64, data []byte) {
	d.t.Helper()
	up, err := d.session.Create(d.t.Context(), "/"+name, offset)
	testkit.Must(d.t, err)
	_, err = up.Write(data)
	testkit.Must(d.t, err)
	testkit.Must(d.t, up.Commit())
}

// pass lets time pass, and what is due in it happen.
func (d *drop) pass(a time.Duration) {
	time.Sleep(a)
	synctest.Wait()
}

// batches lists the ledger, as an operator sees it.
func (d *drop) batches() []inbox.Batch {
	d.t.Helper()
	router := mux.NewRouter()
	d.in.Register(router, operatorstest.Open)
	w := httptest.NewRecorder()
	router.ServeHTTP(w, httptest.NewRequestWithContext(d.t.Context(), "GET", "/v1/admin/batches?limit=10000", nil))
	var doc struct{ Batches []inbox.Batch }
	testkit.Must(d.t, json.NewDecoder(w.Body).Decode(&doc))
	return doc.Batches
}

// one gives the only batch there is.
func (d *drop) one() inbox.Batch {
	d.t.Helper()
	list := d.batches()
	if len(list) != 1 {
		d.t.Fatalf("the ledger has %+v; want one batch", list)
	}
	return list[0]
}

// here tells the bytes that are kept of a file; -1: there is no such file.
func (d *drop) here(name string) int64 {
	e, err := d.session.Stat(d.t.Context(), "/"+name)
	if err != nil {
		return -1
	}
	return e.Size
}

// quarantined gives the file that lies in the quarantine under an ID.
func (d *drop) quarantined(id string) []byte {
	d.t.Helper()
	data, err := os.ReadFile(filepath.Join(d.opt.Dir, "quarantine", id, "batch.tar.gz"))
	testkit.Must(d.t, err)
	return data
}

// wantLines checks how often hosts of a batch are public.
func (d *drop) wantLines(id string, host string, want int) {
	d.t.Helper()
	s, err := d.cat.Pin(d.t.Context())
	testkit.Must(d.t, err)
	defer s.Release()
	lines, err := s.Host(d.t.Context(), host)
	testkit.Must(d.t, err)
	n := 0
	for _, l := range lines {
		if l.Batch == id {
			n++
		}
	}
	if n != want || n != len(lines) {
		d.t.Errorf("%s is public %d times from batch %s, %d in all; want %d", host, n, id, len(lines), want)
	}
}

// TestWithoutManifest: a file that is put by FTP and nothing more is taken ten quiet
// minutes after it last grew, over a restart, and once however often it is put.
func TestWithoutManifest(t *testing.T) {
	inDrop(t, func(t *testing.T, d *drop) {
		b := batchtest.Make(t, d.robots, 1, batchtest.Site("a.example.jp", 12), batchtest.Site("b.example.jp", 3))
		half := len(b.Data) / 2
		d.put("monday.tgz", 0, b.Data[:half])
		d.pass(6 * time.Minute)
		d.put("monday.tgz", ftp.Append, b.Data[half:])
		d.pass(6 * time.Minute) // 12 since it began
		d.stop()
		d.start()
		d.pass(3*time.Minute + 59*time.Second)
		if list := d.batches(); len(list) != 0 || d.here("monday.tgz") != int64(len(b.Data)) {
			t.Fatalf("after not yet ten quiet minutes the ledger has %+v, the drop %d bytes", list, d.here("monday.tgz"))
		}
		d.pass(2 * time.Minute)
		got := d.one()
		if got.ID != string(b.ID) || got.State != wire.StatePublished || !got.Inferred || got.SHA256 != b.Manifest.SHA256 || got.Hosts != 2 {
			t.Errorf("taken is %+v", got)
		}
		r, err := d.in.Acceptor.Receipt(t.Context(), b.ID)
		testkit.Must(t, err)
		if !r.Inferred {
			t.Errorf("receipt %+v", r)
		}
		d.wantLines(got.ID, "a.example.jp", 1)
		if n := d.here("monday.tgz"); n != -1 {
			t.Errorf("%d bytes are left in the drop", n)
		}

		d.put("again.tar.gz", 0, b.Data)
		d.pass(11 * time.Minute)
		d.one()
		d.wantLines(got.ID, "a.example.jp", 1)
		if n := d.here("again.tar.gz"); n != -1 {
			t.Errorf("%d bytes are left in the drop of the file that came again", n)
		}
		// Its manifest after all: the robot learns that the batch is public.
		up, err := d.session.Create(t.Context(), "/"+string(b.ID)+".manifest", 0)
		testkit.Must(t, err)
		up.Write(b.Signed)
		testkit.Must(t, up.Commit())
	})
}

// TestLateManifest: a manifest that comes before the ten minutes are over makes it a batch like any
// other.
func TestLateManifest(t *testing.T) {
	inDrop(t, func(t *testing.T, d *drop) {
		b := batchtest.Make(t, d.robots, 1, batchtest.Site("a.example.jp", 12))
		d.put(string(b.ID)+".tar.gz", 0, b.Data)
		d.pass(9 * time.Minute)
		d.put(string(b.ID)+".manifest", 0, b.Signed)
		d.pass(time.Hour)
		if got := d.one(); got.State != wire.StatePublished || got.Inferred {
			t.Errorf("%+v", got)
		}
	})
}

// TestHeldOpen: as long as a connection is at it, no file is taken.
func TestHeldOpen(t *testing.T) {
	inDrop(t, func(t *testing.T, d *drop) {
		b := batchtest.Make(t, d.robots, 1, batchtest.Site("a.example.jp", 3))
		d.put("held.tar.gz", 0, b.Data) // whole, but that is not known to its writer
		up, err := d.session.Create(t.Context(), "/held.tar.gz", ftp.Append)
		testkit.Must(t, err)
		d.pass(time.Hour)
		if list := d.batches(); len(list) != 0 {
			t.Errorf("taken from under its writer: %+v", list)
		}
		testkit.Must(t, up.Commit())
		d.pass(11 * time.Minute)
		if got := d.one(); got.State != wire.StatePublished {
			t.Errorf("%+v", got)
		}
	})
}

// TestCutOffIsNeverTaken: a batch that ends at, before or behind any member's end stays in
// the drop and is put aside after a day, whole; one that grows to its end is taken.
func TestCutOffIsNeverTaken(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	inDrop(t, func(t *testing.T, d *drop) {
		b := batchtest.Make(t, d.robots, 1, batchtest.Site("a.example.jp", 4), batchtest.Site("b.example.jp", 2))
		points := cutPoints(b, 0)[1:] // of no byte there is nothing to tell
		name := func(n int) string { return fmt.Sprintf("cut-%d.tar.gz", n) }
		for _, n := range points {
			d.put(name(n), 0, b.Data[:n])
		}
		d.pass(23 * time.Hour)
		d.stop()
		d.start()
		d.pass(59 * time.Minute)
		if list := d.batches(); len(list) != 0 {
			t.Fatalf("taken or given up: %+v", list)
		}
		grown := points[len(points)/2]
		d.put(name(grown), ftp.Append, b.Data[grown:])
		d.pass(2 * time.Hour)
		left := map[string]int{}
		for _, n := range points {
			if d.here(name(n)) != -1 {
				t.Errorf("the one of %d bytes is still in the drop", n)
			}
			left[wire.Digest(b.Data[:n])] = n
		}
		delete(left, wire.Digest(b.Data[:grown]))
		for _, got := range d.batches() {
			n, ok := left[got.SHA256]
			delete(left, got.SHA256)
			switch {
			case got.ID == string(b.ID) && got.State == wire.StatePublished:
			case !ok || got.State != wire.StateQuarantined || got.Reason != wire.ReasonTruncated || !strings.Contains(got.Detail, "offset "):
				t.Errorf("%d bytes: %+v", n, got)
			case !bytes.Equal(d.quarantined(got.ID), b.Data[:n]):
				t.Errorf("%d bytes are not in the quarantine as they came", n)
			}
		}
		if len(left) != 0 {
			t.Errorf("nowhere are those of %v bytes", slices.Collect(maps.Values(left)))
		}
		d.wantLines(string(b.ID), "a.example.jp", 1)
	})
}

// tarGz is a batch as robots of 1999 made it: 20 pages in a directory.
func tarGz(t testing.TB, dir string) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for n := range 20 {
		body := strings.Repeat(fmt.Sprint("page ", n), 100)
		testkit.Must(t, w.WriteHeader(&tar.Header{Name: fmt.Sprintf("%s/%d.html", dir, n), Format: tar.FormatGNU, Mode: 0o644, Size: int64(len(body)), ModTime: time.Unix(920_000_000, 0)}))
		w.Write([]byte(body))
	}
	testkit.Must(t, w.Close())
	testkit.Must(t, z.Close())
	return out.Bytes()
}

// TestNotTaken: what is no good batch goes into the quarantine as it came, says why,
// and stands in no other batch's way.
func TestNotTaken(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	foreign := tarGz(t, "pages")
	for _, c := range []struct {
		name    string
		make    func(b *batchtest.Batch) []byte
		after   time.Duration
		want    wire.Reason
		inBatch bool // under the batch's own ID: only its hosts are wrong
	}{
		{"a foreign tar.gz of an unknown host", func(*batchtest.Batch) []byte { return foreign }, 11 * time.Minute, wire.ReasonForeign, false},
		{"a foreign tar.gz, cut", func(*batchtest.Batch) []byte { return foreign[:len(foreign)/2] }, 25 * time.Hour, wire.ReasonTruncated, false},
		{"no gzip", func(*batchtest.Batch) []byte { return []byte("<html>no such page</html>") }, 11 * time.Minute, wire.ReasonCorruptMember, false},
		{"a damaged member", func(b *batchtest.Batch) []byte {
			data := bytes.Clone(b.Data)
			data[len(data)/3] ^= 1
			return data
		}, 11 * time.Minute, wire.ReasonCorruptMember, false},
		{"more after the end", func(b *batchtest.Batch) []byte { return append(bytes.Clone(b.Data), 0) }, 11 * time.Minute, wire.ReasonCorruptMember, false},
		{"another's host", func(b *batchtest.Batch) []byte { return b.Data }, 11 * time.Minute, wire.ReasonHostNotAssigned, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inDrop(t, func(t *testing.T, d *drop) {
				b := batchtest.Make(t, d.robots, 1, batchtest.Site("a.example.jp", 12))
				if c.inBatch {
					d.robots.Foreign = []string{"a.example.jp"}
				}
				data := c.make(b)
				name := string(b.ID) + ".tar.gz"
				if c.want == wire.ReasonTruncated {
					name = "x.tgz"
				}
				for range 2 { // what comes twice is kept once
					d.put(name, 0, data)
					d.pass(c.after)
					if n := d.here(name); n != -1 {
						t.Fatalf("%d bytes are left in the drop", n)
					}
				}
				got := d.one()
				if got.State != wire.StateQuarantined || got.Reason != c.want || !got.Inferred || (got.ID == string(b.ID)) != c.inBatch {
					t.Errorf("%+v", got)
				}
				if !bytes.Equal(d.quarantined(got.ID), data) {
					t.Error("the file is not kept as it came")
				}
				if c.inBatch {
					return
				}
				d.put(string(b.ID)+".tar.gz", 0, b.Data)
				d.put(string(b.ID)+".manifest", 0, b.Signed)
				d.pass(time.Minute)
				d.wantLines(string(b.ID), "a.example.jp", 1)
			})
		})
	}
}

// TestTreeOf1999: a tar.gz of page files, put and nothing more, is public ten quiet minutes later,
// under the host that its directory is called by or that the host map gives, and once however often
// it comes. One directory may be before those of the hosts.
func TestTreeOf1999(t *testing.T) {
	inDrop(t, func(t *testing.T, d *drop) {
		for range 2 {
			d.put("monday.tgz", 0, tarGz(t, "www.example.jp"))
			d.put("tuesday.tgz", 0, tarGz(t, "1f3a9c"))
			d.put("wednesday.tgz", 0, tarGz(t, "html/www.x.example.jp"))
			d.put("thursday.tgz", 0, tarGz(t, "html/1f3a9c"))
			d.pass(11 * time.Minute)
		}
		list := d.batches()
		if len(list) != 4 {
			t.Fatalf("%+v", list)
		}
		for _, b := range list {
			if b.State != wire.StatePublished || !b.Inferred || b.Robot != batchtest.Robot {
				t.Errorf("%+v", b)
			}
		}
		s, err := d.cat.Pin(t.Context())
		testkit.Must(t, err)
		defer s.Release()
		for host, want := range map[string]int{"www.example.jp": 1, "hashed.example.jp": 2, "www.x.example.jp": 1} {
			lines, err := s.Host(t.Context(), host)
			testkit.Must(t, err)
			if len(lines) != want || lines[0].Files != 20 {
				t.Errorf("%s: %+v", host, lines)
			}
		}
	})
}

// TestOfAnotherRobot: a batch that says it is another robot's is this one's, by an ID of its
// content.
func TestOfAnotherRobot(t *testing.T) {
	inDrop(t, func(t *testing.T, d *drop) {
		old := *d.robots
		old.Name, old.Generation = "before", 0
		b := batchtest.Make(t, &old, 1, batchtest.Site("a.example.jp", 3))
		for range 2 {
			d.put("x.tar.gz", 0, b.Data)
			d.pass(11 * time.Minute)
		}
		got := d.one()
		if got.State != wire.StatePublished || wire.BatchID(got.ID).Robot() != batchtest.Robot {
			t.Errorf("%+v", got)
		}
	})
}

// TestCutBatchWaits: under a batch's name the bytes are kept for the robot, which goes on after
// days.
func TestCutBatchWaits(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	inDrop(t, func(t *testing.T, d *drop) {
		b := batchtest.Make(t, d.robots, 1, batchtest.Site("a.example.jp", 12))
		name, half := string(b.ID)+".tar.gz", len(b.Data)/2
		d.put(name, 0, b.Data[:half])
		d.pass(30 * time.Hour)
		if n, list := d.here(name), d.batches(); n != int64(half) || len(list) != 0 {
			t.Fatalf("%d bytes are kept of %d; %+v", n, half, list)
		}
		d.put(name, ftp.Append, b.Data[half:])
		d.put(string(b.ID)+".manifest", 0, b.Signed)
		d.pass(time.Minute)
		if got := d.one(); got.State != wire.StatePublished || got.Inferred {
			t.Errorf("%+v", got)
		}
	})
}

// TestManifestNeeded: where quiet files are not taken, there are only batches with manifests.
func TestManifestNeeded(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	inDrop(t, func(t *testing.T, d *drop) {
		d.stop()
		d.opt.Quiet = 0
		d.start()
		b := batchtest.Make(t, d.robots, 1, batchtest.Site("a.example.jp", 3))
		if _, err := d.session.Create(t.Context(), "/x.tar.gz", 0); err == nil {
			t.Error("a file is taken that nothing can be done with")
		}
		d.put(string(b.ID)+".tar.gz", 0, b.Data)
		d.pass(25 * time.Hour)
		if list := d.batches(); len(list) != 0 || d.here(string(b.ID)+".tar.gz") != int64(len(b.Data)) {
			t.Errorf("%+v", list)
		}
	})
}
