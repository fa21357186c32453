// Package servetest makes what tests of the serving packages need: a store and a catalog in a
// temporary directory with published segments, and accounts in a database. All of it is real; there
// are no mocks.
package servetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/archive/store"
	"sheaf/archive/urlindex"
	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/passwords"
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/internal/window"
	"sheaf/internal/wire"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/reading"
	"sheaf/serve/results"
)

// Cheap is the least that argon2id can spend on a password.
var Cheap = passwords.Cost{Memory: 8, Passes: 1}

// Site is an archive with its readers.
type Site struct {
	Dir      string // of the store
	Store    *store.FS
	Catalog  *catalog.Catalog
	Library  *reading.Library
	Accounts *account.Accounts
	Log      *transfers.Log
	Jobs     *results.Jobs // nothing works on them before Run
	DB       *sql.DB
	Running  *transfers.Running // downloads under way of the servers that get it

	// Others are the others (gzip members of records) of the batches that Publish makes, by host;
	// those of no host have an empty name.
	Others map[string]string

	t       testing.TB
	batches int
}

// New returns an empty site. anonymous may be nil.
func New(t testing.TB, anonymous *account.Account) *Site {
	t.Helper()
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "store")
	st, err := store.OpenFS(dir)
	testkit.Must(t, err)
	t.Cleanup(func() { st.Close() })
	cat, err := catalog.Open(ctx, st, catalog.Options{})
	testkit.Must(t, err)
	database, err := db.Open(ctx, dbtest.Source(t))
	testkit.Must(t, err)
	t.Cleanup(func() { database.Close() })
	accounts, err := account.NewAccounts(database, anonymous, Cheap)
	testkit.Must(t, err)
	library, err := reading.New(reading.Options{
		Catalog: cat, Store: st, Accounts: accounts, Contact: "ops@example.jp", URLs: urlindex.NewReader(st, urlindex.ReaderOptions{}),
		Meter: account.NewMeter(account.Options{Zone: testkit.Midday()}),
	})
	testkit.Must(t, err)
	return &Site{Dir: dir, Store: st, Catalog: cat, Library: library, Accounts: accounts, Log: transfers.New(database), Jobs: results.NewJobs(database, st, library.Records, library.Results, accounts, slog.New(slog.DiscardHandler)), DB: database, Running: new(transfers.Running), t: t}
}

// Downloads waits until no download is under way and returns the log, newest first.
func (s *Site) Downloads(f transfers.Filter) []transfers.Transfer {
	s.t.Helper()
	testkit.Until(s.t, "no download is under way", func() bool { return len(s.Running.List(transfers.Filter{})) == 0 })
	list, err := s.Log.List(context.Background(), f)
	testkit.Must(s.t, err)
	return list
}

// Account creates an account whose password is its name.
func (s *Site) Account(name, opening string, domains ...string) *account.Account {
	s.t.Helper()
	w, err := window.Parse(opening)
	testkit.Must(s.t, err)
	a, _, err := s.Accounts.Create(context.Background(), account.Account{Name: name, Domains: domains, Window: w}, name)
	testkit.Must(s.t, err)
	return &a
}

// Index updates the URL index to what is published now. Before that it covers nothing.
func (s *Site) Index() {
	s.t.Helper()
	b := urlindex.NewBuilder(s.Catalog, s.Store, urlindex.Options{TempDir: s.t.TempDir(), Fanout: 3, Log: slog.New(slog.DiscardHandler)})
	testkit.Must(s.t, b.Update(context.Background()))
}

// Page returns a full record of a page.
func Page(url, body string, at time.Time) *archive.Record {
	return record(archive.Page, url, 200, "text/html", body, at)
}

// Answer returns a record of an answer that is no page.
func Answer(url string, status int, at time.Time) *archive.Record {
	return record(archive.Response, url, status, "text/plain", "", at)
}

// Again returns a revisit of the page that Page returns for the same URL and body.
func Again(url, body string, first, at time.Time) *archive.Record {
	r := record(archive.Revisit, url, 304, "text/html", "", at)
	r.Body = nil
	r.RefersDate, r.PayloadDigest = first, Digest(body)
	return r
}

func record(kind archive.Kind, url string, status int, media, body string, at time.Time) *archive.Record {
	return &archive.Record{
		Kind: kind, URL: url, Time: at, IP: "192.0.2.1",
		HTTP: fmt.Appendf(nil, "HTTP/1.1 %d Status\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", status, media, len(body)),
		Body: bytes.NewReader([]byte(body)),
	}
}

// Publish publishes what Prepare returns, and returns the edition's name.
func (s *Site) Publish(day string, batches ...map[string][]*archive.Record) string {
	s.t.Helper()
	v, err := s.Catalog.Publish(context.Background(), s.Prepare(day, batches...))
	testkit.Must(s.t, err)
	return v.Edition
}

// Prepare seals the records of each host as one segment of a batch, and returns what publishes the
// batches as an edition of the day. Every other batch is stored as a pack, with other bytes before
// it, and the rest with an object for each host. Readers see no difference.
func (s *Site) Prepare(day string, batches ...map[string][]*archive.Record) catalog.Publication {
	s.t.Helper()
	p := catalog.Publication{Day: day}
	var lines []catalog.SegmentEntry
	for _, hosts := range batches {
		batch, of := s.batch(day, hosts)
		p.Batches, lines = append(p.Batches, batch), append(lines, of...)
	}
	p.Entries = catalog.Entries(lines...)
	return p
}

// batch seals and stores a batch, every other one as a pack.
func (s *Site) batch(day string, hosts map[string][]*archive.Record) (catalog.Batch, []catalog.SegmentEntry) {
	s.t.Helper()
	ctx := context.Background()
	s.batches++
	batch := catalog.Batch{ID: fmt.Sprintf("r1-%sT000000Z-%d", day, s.batches), SHA256: hex.EncodeToString(make([]byte, 32))}
	var lines []catalog.SegmentEntry
	pack := []byte("segments of others")
	for host, records := range hosts {
		line, data := s.segment(batch, host, records)
		if s.batches%2 == 1 {
			line.Object, line.Offset = "packs/"+batch.ID+".tar.gz", int64(len(pack))
			pack = append(pack, data...)
		} else {
			testkit.Must(s.t, s.Store.Put(ctx, line.Object, bytes.NewReader(data), int64(len(data))))
		}
		lines = append(lines, line)
	}
	s.beside(batch, lines)
	if s.batches%2 == 1 {
		pack = append(pack, "and more of them"...)
		testkit.Must(s.t, s.Store.Put(ctx, "packs/"+batch.ID+".tar.gz", bytes.NewReader(pack), int64(len(pack))))
	}
	return batch, lines
}

// beside stores the others of a batch, as ingest does.
func (s *Site) beside(batch catalog.Batch, lines []catalog.SegmentEntry) {
	s.t.Helper()
	object := []byte(s.Others[""])
	for i := range lines {
		data, ok := s.Others[lines[i].Host]
		if !ok {
			continue
		}
		sum := SHA256([]byte(data))
		lines[i].Views[wire.ViewOthers] = catalog.View{Size: int64(len(data)), SHA256: sum, ETag: `"` + sum[:32] + `"`, Offset: int64(len(object))}
		object = append(object, data...)
	}
	if len(s.Others) > 0 {
		testkit.Must(s.t, s.Store.Put(context.Background(), wire.OthersKey(wire.BatchID(batch.ID)), bytes.NewReader(object), int64(len(object))))
	}
}

// segment seals one host's records. Its entry says that the segment is an object of its own.
func (s *Site) segment(batch catalog.Batch, host string, records []*archive.Record) (catalog.SegmentEntry, []byte) {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "segment")
	w, err := archive.Create(path, host, batch.ID, archive.WriterOptions{})
	testkit.Must(s.t, err)
	for _, r := range records {
		_, err := w.Append(r)
		testkit.Must(s.t, err)
	}
	_, err = w.Seal()
	testkit.Must(s.t, err)
	data, err := os.ReadFile(path)
	testkit.Must(s.t, err)
	sum, err := archive.VerifySegment(bytes.NewReader(data), archive.VerifyOptions{
		Host: host, Views: []archive.ViewKind{archive.Single, archive.Files, archive.WARC, archive.Links},
	})
	testkit.Must(s.t, err)
	line := catalog.SegmentEntry{
		Host: host, Object: "segments/" + naming.HostPath(host) + "/" + batch.ID + ".tar.gz",
		Length: int64(len(data)), IndexOffset: sum.IndexOffset, IndexLength: sum.IndexLength,
		First: sum.First, Last: sum.Last, Records: sum.Records, Revisits: sum.Revisits, Files: sum.Files, Preferences: sum.Asked,
		SHA256: sum.SHA256, Views: make(map[string]catalog.View),
		Origin: catalog.Origin{Batch: batch.ID, BatchSHA256: batch.SHA256, Robot: "r1"},
	}
	for kind, v := range sum.Views {
		line.Views[string(kind)] = catalog.View{Size: v.Size, SHA256: v.SHA256, ETag: v.ETag}
	}
	return line, data
}

// Digest returns the digest of a payload, in the form that records have.
func Digest(body string) string {
	sum := sha256.Sum256([]byte(body))
	return "sha256:" + base32.StdEncoding.EncodeToString(sum[:])
}

// SHA256 returns the SHA-256 of data in lower-case hexadecimal.
func SHA256(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// ReadFile returns the bytes of a file. It fails the test if their number or their digest is not
// the one that the file names.
func ReadFile(t testing.TB, f *library.File) []byte {
	t.Helper()
	r, err := f.OpenRange(t.Context(), 0, f.Size)
	testkit.Must(t, err)
	defer r.Close()
	data, err := io.ReadAll(r)
	testkit.Must(t, err)
	if int64(len(data)) != f.Size {
		t.Fatalf("%s: %d bytes, size says %d", f.Name, len(data), f.Size)
	}
	if f.SHA256 != "" && f.SHA256 != SHA256(data) {
		t.Errorf("%s has another digest than it says", f.Name)
	}
	return data
}
