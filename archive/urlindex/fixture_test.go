package urlindex_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/archive/store"
	"sheaf/archive/urlindex"
	"sheaf/internal/testkit"
)

// noon is the time at which the tests crawl and publish.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// site is a store with a catalog of real segments, and an index of them.
type site struct {
	t       testing.TB
	store   store.Store
	catalog *catalog.Catalog
	now     time.Time
	batches int
	robot   string // of the next batch; empty: r1
	sealed  string // directory of the sealed segments

	waiting       []*archive.Record // records of the next batch
	sealedBatches []catalog.Batch   // not published yet
	sealedLines   []catalog.SegmentEntry
	opt           urlindex.Options
}

// newSite returns a site in a store whose clock stands at noon.
func newSite(t testing.TB) *site {
	return newSiteIn(t, newDamageable(t))
}

func newSiteIn(t testing.TB, st store.Store) *site {
	t.Helper()
	s := &site{t: t, store: st, now: noon, sealed: t.TempDir()}
	s.opt = urlindex.Options{TempDir: t.TempDir(), Fanout: 3, SortMemory: 4 << 10, Log: slog.New(slog.DiscardHandler)}
	var err error
	s.catalog, err = catalog.Open(t.Context(), st, catalog.Options{Now: func() time.Time { return s.now }, TempDir: t.TempDir(), Fanout: 3})
	testkit.Must(t, err)
	return s
}

func (s *site) builder() *urlindex.Builder { return urlindex.NewBuilder(s.catalog, s.store, s.opt) }

func (s *site) update() {
	s.t.Helper()
	testkit.Must(s.t, s.builder().Update(s.t.Context()))
}

func (s *site) reader() *urlindex.Reader {
	return urlindex.NewReader(s.store, urlindex.ReaderOptions{})
}

func (s *site) view() *urlindex.View {
	s.t.Helper()
	v, err := s.reader().Current(s.t.Context())
	testkit.Must(s.t, err)
	return v
}

// publish seals the records by host and publishes them as one batch. It returns the edition's name.
func (s *site) publish(records ...*archive.Record) string {
	s.t.Helper()
	s.publishLater(records...)
	return s.publishAll()
}

// publishLater adds records to the next batch.
func (s *site) publishLater(records ...*archive.Record) { s.waiting = append(s.waiting, records...) }

// sealLater ends the batch. It is published together with the next one.
func (s *site) sealLater() {
	s.t.Helper()
	hosts := make(map[string][]*archive.Record)
	for _, r := range s.waiting {
		host, err := naming.HostOf(r.URL)
		testkit.Must(s.t, err)
		hosts[host] = append(hosts[host], r)
	}
	s.waiting = nil
	s.batches++
	batch := catalog.Batch{ID: fmt.Sprintf("r1-20261121T000000Z-%d", s.batches), SHA256: fmt.Sprintf("%064d", s.batches)}
	s.sealedBatches = append(s.sealedBatches, batch)
	for host, of := range hosts {
		s.sealedLines = append(s.sealedLines, s.segment(batch, host, of))
	}
}

// publishAll publishes all sealed batches as one edition.
func (s *site) publishAll() string {
	s.t.Helper()
	if len(s.waiting) > 0 {
		s.sealLater()
	}
	v, err := s.catalog.Publish(s.t.Context(), catalog.Publication{Batches: s.sealedBatches, Entries: catalog.Entries(s.sealedLines...)})
	testkit.Must(s.t, err)
	s.sealedBatches, s.sealedLines = nil, nil
	return v.Edition
}

// segment seals and stores one host's records.
func (s *site) segment(batch catalog.Batch, host string, records []*archive.Record) catalog.SegmentEntry {
	s.t.Helper()
	path := filepath.Join(s.sealed, "segment")
	defer os.Remove(path)
	w, err := archive.Create(path, host, batch.ID, archive.WriterOptions{})
	testkit.Must(s.t, err)
	for _, r := range records {
		if r.Body != nil {
			_, err := r.Body.(io.Seeker).Seek(0, io.SeekStart)
			testkit.Must(s.t, err)
		}
		_, err := w.Append(r)
		testkit.Must(s.t, err)
	}
	_, err = w.Seal()
	testkit.Must(s.t, err)
	data, err := os.ReadFile(path)
	testkit.Must(s.t, err)
	sum, err := archive.VerifySegment(bytes.NewReader(data), archive.VerifyOptions{Host: host, Views: []archive.ViewKind{archive.WARC}})
	testkit.Must(s.t, err)
	l := catalog.SegmentEntry{
		Host: host, Object: "segments/" + naming.HostPath(host) + "/" + batch.ID + ".tar.gz",
		Length: int64(len(data)), IndexOffset: sum.IndexOffset, IndexLength: sum.IndexLength,
		First: sum.First, Last: sum.Last, Records: sum.Records, Revisits: sum.Revisits, Files: sum.Files,
		SHA256: sum.SHA256, Views: map[string]catalog.View{}, Origin: catalog.Origin{Batch: batch.ID, BatchSHA256: batch.SHA256, Robot: cmp.Or(s.robot, "r1")},
	}
	for kind, v := range sum.Views {
		l.Views[string(kind)] = catalog.View{Size: v.Size, SHA256: v.SHA256, ETag: v.ETag}
	}
	testkit.Must(s.t, s.store.Put(s.t.Context(), l.Object, bytes.NewReader(data), l.Length))
	return l
}

// page returns a full record of a page.
func page(url, body string, at time.Time) *archive.Record {
	return &archive.Record{Kind: archive.Page, URL: url, Time: at, IP: "192.0.2.1", Body: bytes.NewReader([]byte(body)),
		HTTP: fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n", len(body))}
}

// again returns a revisit of a page with the same URL and body.
func again(url, body string, first, at time.Time) *archive.Record {
	sum := sha256.Sum256([]byte(body))
	return &archive.Record{Kind: archive.Revisit, URL: url, Time: at, RefersDate: first,
		PayloadDigest: "sha256:" + base32.StdEncoding.EncodeToString(sum[:]), HTTP: []byte("HTTP/1.1 304 Not Modified\r\n\r\n")}
}

// visible returns all records that the catalog shows, from the segments' own indexes, in the order
// of the index.
func (s *site) visible() []*urlindex.Row {
	s.t.Helper()
	snap, err := s.catalog.Pin(s.t.Context())
	testkit.Must(s.t, err)
	defer snap.Release()
	hosts, err := snap.Hosts(s.t.Context(), "", "", 0)
	testkit.Must(s.t, err)
	var all []*urlindex.Row
	for _, h := range hosts {
		lines, err := snap.Host(s.t.Context(), h.Host)
		testkit.Must(s.t, err)
		for _, l := range lines {
			index, err := archive.ReadIndexAt(s.t.Context(), store.Source(s.store, l.Object, l.Offset), l.IndexOffset, l.IndexLength)
			testkit.Must(s.t, err)
			before := int64(0)
			for _, c := range index.Cells {
				all = append(all, &urlindex.Row{Cell: c, Seq: l.Seq, Before: before})
				before += c.WARCLength()
			}
		}
	}
	slices.SortFunc(all, func(a, b *urlindex.Row) int { return a.Position().Compare(b.Position()) })
	return all
}

// indexed returns the rows in a range of the index whose lines the catalog shows.
func (s *site) indexed(v *urlindex.View, in urlindex.Range) []*urlindex.Row {
	s.t.Helper()
	shown := s.shown()
	var all []*urlindex.Row
	for r, err := range rowsOf(s.t.Context(), v, in) {
		testkit.Must(s.t, err)
		if shown[r.Seq] {
			all = append(all, r)
		}
	}
	return all
}

// shown returns the sequence numbers of the lines that the catalog shows.
func (s *site) shown() map[int64]bool {
	s.t.Helper()
	snap, err := s.catalog.Pin(s.t.Context())
	testkit.Must(s.t, err)
	defer snap.Release()
	hosts, err := snap.Hosts(s.t.Context(), "", "", 0)
	testkit.Must(s.t, err)
	shown := make(map[int64]bool)
	for _, h := range hosts {
		lines, err := snap.Host(s.t.Context(), h.Host)
		testkit.Must(s.t, err)
		for _, l := range lines {
			shown[l.Seq] = true
		}
	}
	return shown
}

// same compares rows, except for their place in the edition's file.
func same(t testing.TB, what string, got, want []*urlindex.Row) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for i := range got {
		g := *got[i]
		g.Filename, g.FileOffset = "", 0
		if w := *want[i]; !g.Time.Equal(w.Time) || !g.RefersDate.Equal(w.RefersDate) {
			t.Fatalf("%s: row %d is of %v, refers to %v; want %v, %v", what, i, g.Time, g.RefersDate, w.Time, w.RefersDate)
		} else if g.Time, g.RefersDate = w.Time, w.RefersDate; g != w {
			t.Fatalf("%s: row %d is\n%+v, want\n%+v", what, i, g, w)
		}
	}
}
