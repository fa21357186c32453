package catalog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// damaged is a store in which one object reads as other bytes; nil bytes mean that it is missing.
type damaged struct {
	store.Store
	key  string
	data []byte
}

func (d *damaged) Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if key != d.key {
		return d.Store.Open(ctx, key, off, n)
	}
	size := int64(len(d.data))
	if n < 0 {
		n = size - off
	}
	switch {
	case d.data == nil:
		return nil, store.ErrNotExist
	case off > size || n > size-off:
		return nil, store.ErrRange
	}
	return io.NopCloser(bytes.NewReader(d.data[off : off+n])), nil
}

func (d *damaged) List(ctx context.Context, prefix, after string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		for info, err := range d.Store.List(ctx, prefix, after) {
			if info.Key == d.key {
				if d.data == nil {
					continue
				}
				info.Size = int64(len(d.data))
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

func content(t *testing.T, st store.Store, key string) []byte {
	t.Helper()
	r, err := st.Open(t.Context(), key, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return data
}

// Whatever object of a published catalog is missing, cut short or changed, fsck says which.
func TestFsckFindsDamage(t *testing.T) {
	testkit.Slow(t)
	st := newStore(t)
	c := openWith(t, st, catalog.Options{Fanout: 3, BlockSize: 1000})
	for i := range 4 {
		id := fmt.Sprintf("b%d", i)
		p := publication(id, putSegment(t, st, "a.jp", id), putSegment(t, st, "b.jp", id), putSegment(t, st, "c.jp", id))
		manifest := "manifest of " + id // what stands in it is its robot's
		p.Batches[0].Manifest = wire.Digest([]byte(manifest))
		if err := st.Put(t.Context(), wire.ManifestKey(wire.BatchID(id)), strings.NewReader(manifest), int64(len(manifest))); err != nil {
			t.Fatal(err)
		}
		publish(t, c, p)
		if err := c.Merge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Remove(t.Context(), catalog.Tombstone{Host: "b.jp", Edition: "20261121"}); err != nil {
		t.Fatal(err)
	}
	report := wantClean(t, st)
	if report.Versions != 6 || report.Segments != 12 || report.Batches != 4 || report.Editions != 4 || report.Orphans != 0 || report.Verified != 11 {
		t.Errorf("clean report: %+v", report)
	}
	for info, err := range st.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		data := content(t, st, info.Key)
		damages := map[string][]byte{"missing": nil, "cut": data[:len(data)-1], "empty": {}}
		for i := 0; i < len(data); i += max(1, len(data)/40) {
			changed := bytes.Clone(data)
			changed[i] ^= 0x20
			damages[fmt.Sprintf("byte %d", i)] = changed
		}
		for name, damage := range damages {
			report, err := catalog.Fsck(t.Context(), &damaged{st, info.Key, damage}, catalog.FsckOptions{TempDir: t.TempDir(), Deep: true})
			if err != nil {
				t.Fatalf("%s %s: %v", info.Key, name, err)
			}
			takenDown := info.Key == "segments/b.jp/b0"
			newest := info.Key == "catalog/00000000000000000006"
			switch {
			case takenDown && report.OK():
			case newest && report.Found == 0 && (damage == nil || strings.HasPrefix(name, "byte")):
				// Without the newest entry the log ends one earlier; and nothing is chained to it
				// yet.
			case report.OK():
				t.Errorf("%s %s: fsck finds nothing", info.Key, name)
			}
		}
	}
}

func TestFsckOrphansAndVerify(t *testing.T) {
	st := newStore(t)
	if report := wantClean(t, st); report.Versions != 0 {
		t.Errorf("an empty store: %+v", report)
	}
	publish(t, open(t, st), publication("b1", putSegment(t, st, "a.jp", "b1")))
	putSegment(t, st, "a.jp", "b2")
	if report := wantClean(t, st); report.Orphans != 1 || report.OrphanKeys[0] != "segments/a.jp/b2" {
		t.Errorf("orphans: %q", report.OrphanKeys)
	}
	bad := errors.New("cell 3 is torn")
	report, err := catalog.Fsck(t.Context(), st, catalog.FsckOptions{Deep: true, Verify: func(context.Context, catalog.SegmentEntry) error { return bad }})
	if err != nil || report.Found != 1 || !strings.Contains(report.Problems[0].Detail, bad.Error()) {
		t.Errorf("verify: %+v, %v", report, err)
	}
}

// Segments of one object may have gaps between them, but no byte in common.
func TestFsckPack(t *testing.T) {
	for name, c := range map[string]struct {
		offsets [3]int64 // of segments of 10 bytes
		want    int64    // problems
	}{
		"one after another": {[3]int64{0, 10, 20}, 0},
		"in any order":      {[3]int64{20, 0, 10}, 0},
		"gaps":              {[3]int64{5, 30, 50}, 0},
		"overlap":           {[3]int64{0, 9, 19}, 1},
		"the same":          {[3]int64{0, 20, 20}, 1},
		"all overlap":       {[3]int64{0, 1, 2}, 2},
		"beyond the end":    {[3]int64{0, 10, 95}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			st := newStore(t)
			if err := st.Put(t.Context(), "packs/p", bytes.NewReader(make([]byte, 100)), 100); err != nil {
				t.Fatal(err)
			}
			var lines []catalog.SegmentEntry
			for i, host := range []string{"a.jp", "b.jp", "c.jp"} {
				l := putSegment(t, st, host, "b1")
				l.Object, l.Offset, l.Length = "packs/p", c.offsets[i], 10
				l.IndexOffset, l.IndexLength = 0, 0
				lines = append(lines, l)
			}
			publish(t, open(t, st), publication("b1", lines...))
			report, err := catalog.Fsck(t.Context(), st, catalog.FsckOptions{TempDir: t.TempDir()})
			if err != nil || report.Found != c.want {
				t.Errorf("%d problems, want %d: %+v, %v", report.Found, c.want, report.Problems, err)
			}
		})
	}
}
