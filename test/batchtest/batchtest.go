// Package batchtest makes batches as a robot does, and takes the manager's place, for tests of
// ingest, of its receivers, and of the whole service.
package batchtest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// Robot is the name of the robot that NewRobots makes, Secret its secret.
const (
	Robot  = "waseda"
	Secret = "sesame"
)

// Batch is a batch that a robot could send.
type Batch struct {
	ID       wire.BatchID
	Data     []byte
	Manifest *wire.Manifest
	Signed   []byte
}

// Page is one page of a host.
type Page struct {
	Path string
	Body []byte
}

// Host is one host's part of a batch.
type Host struct {
	Name  string
	Each  iter.Seq[Page]
	Start time.Time // of the crawl; zero is the time in the batch IDs
}

// Site returns a host with n small pages.
func Site(name string, n int) Host {
	return Host{Name: name, Each: func(yield func(Page) bool) {
		for i := range n {
			if !yield(Page{fmt.Sprintf("/%d.html", i), fmt.Appendf(nil, "<html>%s, page %d %s</html>", name, i, strings.Repeat("text ", i%50))}) {
				return
			}
		}
	}}
}

// ID returns the ID of the n-th batch of Robot.
func ID(n int64) wire.BatchID { return wire.NewBatchID(Robot, crawled, n) }

// ID returns the ID of the robot's n-th batch.
func (r *Robots) ID(n int64) wire.BatchID { return wire.NewBatchID(r.Name, crawled, n) }

var crawled = time.Date(2026, 11, 20, 15, 4, 5, 0, time.UTC)

// Make builds the robot's n-th batch of the hosts' pages.
func Make(t testing.TB, r *Robots, n int64, hosts ...Host) *Batch {
	t.Helper()
	var out bytes.Buffer
	b := MakeTo(t, &out, r, n, hosts...)
	b.Data = out.Bytes()
	return b
}

// MakeTo is Make, but writes the batch's bytes to w.
func MakeTo(t testing.TB, w io.Writer, r *Robots, n int64, hosts ...Host) *Batch {
	t.Helper()
	m := &wire.Manifest{
		Express: r.Express,
		Format:  wire.ManifestFormat, Batch: r.ID(n), Robot: r.Name, Version: "test", Generation: r.Generation, Created: crawled.Add(time.Hour),
	}
	bw := archive.NewBatchWriter(w)
	for _, h := range hosts {
		m.Hosts = append(m.Hosts, addHost(t, bw, h))
	}
	inner, err := json.Marshal(m)
	testkit.Must(t, err)
	m.Size, m.SHA256, err = bw.Finish(inner)
	testkit.Must(t, err)
	return r.Sign(t, &Batch{ID: m.Batch, Manifest: m})
}

// addHost writes a host's segment to a file, as robots do, and adds it to the batch.
func addHost(t testing.TB, bw *archive.BatchWriter, h Host) wire.Host {
	t.Helper()
	path := filepath.Join(t.TempDir(), "segment")
	w, err := archive.Create(path, h.Name, "test-"+strings.ReplaceAll(h.Name, ":", "_"), archive.WriterOptions{})
	testkit.Must(t, err)
	at := crawled
	if !h.Start.IsZero() {
		at = h.Start
	}
	for p := range h.Each {
		_, err := w.Append(&archive.Record{
			Kind: archive.Page, URL: "http://" + h.Name + p.Path, Time: at, IP: "192.0.2.1",
			HTTP: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"), Body: bytes.NewReader(p.Body),
		})
		testkit.Must(t, err)
		at = at.Add(time.Millisecond)
	}
	idx, err := w.Seal()
	testkit.Must(t, err)
	f, err := os.Open(path)
	testkit.Must(t, err)
	defer f.Close()
	defer os.Remove(path)
	host, err := bw.AddSegment(t.Context(), archive.FileSource(f, 0), idx)
	testkit.Must(t, err)
	return host
}

// Robots is one robot, and the manager that knows it.
type Robots struct {
	Name       string
	Key        ed25519.PrivateKey
	Generation int64                // of the assignment under which batches are made
	Foreign    []string             // hosts that the robot never had
	Until      map[string]time.Time // when the robot lost a host, by host; it still has the others
	Unwatched  bool                 // nobody watches a host
	Express    bool                 // its batches may be published outside the window
	Stolen     time.Time            // since when its key has been in others' hands; zero: the key was not stolen
}

// NewRobots returns a robot with a new key.
func NewRobots(t testing.TB) *Robots {
	_, key, err := ed25519.GenerateKey(nil)
	testkit.Must(t, err)
	return &Robots{Name: Robot, Key: key, Generation: 1}
}

// Sign signs the batch's manifest as it is.
func (r *Robots) Sign(t testing.TB, b *Batch) *Batch {
	t.Helper()
	signed, err := b.Manifest.Sign(r.Key)
	testkit.Must(t, err)
	b.Signed = signed
	return b
}

// Resign updates the manifest after a test has changed the batch's bytes, and signs it.
func (r *Robots) Resign(t testing.TB, b *Batch) *Batch {
	t.Helper()
	b.Manifest.Size, b.Manifest.SHA256 = int64(len(b.Data)), wire.Digest(b.Data)
	return r.Sign(t, b)
}

func (r *Robots) Authenticate(_ context.Context, robot, secret string) error {
	if secret != Secret {
		return wire.ErrUnauthorized
	}
	return nil
}

func (r *Robots) RobotKey(context.Context, string) (ed25519.PublicKey, error) {
	return r.Key.Public().(ed25519.PublicKey), nil
}

func (r *Robots) CurrentGeneration(context.Context) (int64, error) { return r.Generation, nil }

func (r *Robots) Watched(context.Context, []string) (bool, error) { return !r.Unwatched, nil }

func (r *Robots) StolenSince(context.Context, string) (time.Time, error) { return r.Stolen, nil }

func (r *Robots) HeldUntil(_ context.Context, _ string, hosts []string) (map[string]time.Time, error) {
	until := make(map[string]time.Time)
	for _, h := range hosts {
		if !slices.Contains(r.Foreign, h) {
			until[h] = r.Until[h]
		}
	}
	return until, nil
}
