package catalog_test

import (
	"iter"
	"strings"
	"testing"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
)

// noon is when the tests publish: 21:00 in Tokyo.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func newStore(t testing.TB) store.Store {
	t.Helper()
	s, err := store.OpenFS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func open(t testing.TB, st store.Store) *catalog.Catalog {
	t.Helper()
	return openWith(t, st, catalog.Options{})
}

func openWith(t testing.TB, st store.Store, opt catalog.Options) *catalog.Catalog {
	t.Helper()
	if opt.Now == nil {
		opt.Now = func() time.Time { return noon }
	}
	opt.TempDir = t.TempDir()
	c, err := catalog.Open(t.Context(), st, opt)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func pin(t testing.TB, c *catalog.Catalog) *catalog.Snapshot {
	t.Helper()
	s, err := c.Pin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Release)
	return s
}

// putSegment stores an object in place of a host's segment, and returns its entry.
func putSegment(t testing.TB, st store.Store, host, batch string) catalog.SegmentEntry {
	t.Helper()
	l := segment(host, batch)
	if err := st.Put(t.Context(), l.Object, strings.NewReader(segmentText(host, batch)), l.Length); err != nil {
		t.Fatal(err)
	}
	return l
}

func segmentText(host, batch string) string { return "segment of " + host + " in " + batch }

// segment is the line of a segment that may not be stored.
func segment(host, batch string) catalog.SegmentEntry {
	text := segmentText(host, batch)
	return catalog.SegmentEntry{
		Host: host, Object: "segments/" + host + "/" + batch, Length: int64(len(text)), SHA256: hexSHA256(text),
		First: noon.Add(-time.Hour), Last: noon, Records: 2, Files: 1, Origin: catalog.Origin{Batch: batch, BatchSHA256: "digest of " + batch, Robot: "robot"},
		Views: map[string]catalog.View{"members": {Size: int64(len(text)), SHA256: hexSHA256(text), ETag: `"tag"`}},
	}
}

func publication(batch string, lines ...catalog.SegmentEntry) catalog.Publication {
	return catalog.Publication{
		Batches: []catalog.Batch{{ID: batch, SHA256: "digest of " + batch}},
		Entries: catalog.Entries(lines...),
	}
}

func publish(t testing.TB, c *catalog.Catalog, p catalog.Publication) catalog.Version {
	t.Helper()
	v, err := c.Publish(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func collect(t testing.TB, lines iter.Seq2[catalog.SegmentEntry, error]) []catalog.SegmentEntry {
	t.Helper()
	var all []catalog.SegmentEntry
	for l, err := range lines {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

// batches returns the batches of entries, in their order.
func batches(lines []catalog.SegmentEntry) string {
	var ids []string
	for _, l := range lines {
		ids = append(ids, l.Batch)
	}
	return strings.Join(ids, " ")
}

func wantHost(t testing.TB, s *catalog.Snapshot, host, want string) {
	t.Helper()
	lines, err := s.Host(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	if got := batches(lines); got != want {
		t.Errorf("%s has batches %q, want %q", host, got, want)
	}
}

func wantClean(t testing.TB, st store.Store) *catalog.Report {
	t.Helper()
	report, err := catalog.Fsck(t.Context(), st, catalog.FsckOptions{TempDir: t.TempDir(), Deep: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range report.Problems {
		t.Errorf("fsck: %s: %s", p.Where, p.Detail)
	}
	return report
}
