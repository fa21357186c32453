package urlindex_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/store/storetest"
	"sheaf/archive/urlindex"
	"sheaf/internal/testkit"
)

// cdxj has the fields of a line that other programs read.
type cdxj struct{ URL, Filename, Offset, Length string }

func parse(t testing.TB, line string) (f cdxj) {
	t.Helper()
	testkit.Must(t, json.Unmarshal([]byte(strings.SplitN(line, " ", 3)[2]), &f))
	return f
}

// The file and offset that a row names lead to its record in the served file, also if several
// batches of one edition have records of a host.
func TestFilePlaces(t *testing.T) {
	s := newSite(t)
	for i := range 3 {
		s.publishLater(page("http://a.jp/", fmt.Sprint(i), noon.Add(time.Duration(i))), page(fmt.Sprintf("http://a.jp/%d", i), "x", noon))
		s.sealLater()
	}
	edition := s.publishAll()
	s.update()
	snap, err := s.catalog.Pin(t.Context())
	testkit.Must(t, err)
	defer snap.Release()
	lines, err := snap.HostEdition(t.Context(), "a.jp", edition)
	testkit.Must(t, err)
	var parts []archive.Part
	for _, l := range lines {
		src := store.Source(s.store, l.Object, l.Offset)
		index, err := archive.ReadIndexAt(t.Context(), src, l.IndexOffset, l.IndexLength)
		testkit.Must(t, err)
		parts = append(parts, archive.Part{Source: src, Index: index, Digest: l.SHA256})
	}
	file, err := archive.NewView(archive.WARC, parts)
	testkit.Must(t, err)
	n := 0
	for r, err := range rowsOf(t.Context(), s.view(), urlindex.Range{}) {
		testkit.Must(t, err)
		if r.Filename != "jp/a/"+edition+".warc.gz" {
			t.Errorf("%s lies in %s", r.URL, r.Filename)
		}
		rc, err := file.OpenRange(t.Context(), r.FileOffset, r.WARCLength())
		testkit.Must(t, err)
		z, err := gzip.NewReader(rc)
		testkit.Must(t, err)
		record, err := io.ReadAll(z)
		testkit.Must(t, err)
		if !bytes.Contains(record, []byte("WARC-Target-URI: "+r.URL+"\r\n")) {
			t.Errorf("at %d lies %.200q, want %s", r.FileOffset, record, r.URL)
		}
		n++
	}
	if n != 6 {
		t.Errorf("%d rows, want 6", n)
	}
}

// Rows of erased records leave the runs soon. After a collection no object of the index has them.
func TestErasedContentGoes(t *testing.T) {
	h := withErased(t)
	h.update()
	holds := func(keys []string) (holding int) {
		for _, key := range keys {
			z, err := gzip.NewReader(bytes.NewReader(h.store.(*damageable).read(key)))
			testkit.Must(t, err)
			text, err := io.ReadAll(z)
			testkit.Must(t, err)
			if bytes.Contains(text, []byte("secret")) {
				holding++
			}
		}
		return holding
	}
	rows := func() (keys []string) {
		for _, key := range h.store.(*damageable).keys("urls/runs/") {
			if strings.HasSuffix(key, "cdx.gz") {
				keys = append(keys, key)
			}
		}
		return keys
	}
	if holds(rows()) == 0 {
		t.Fatal("nothing to erase")
	}
	_, err := h.catalog.Remove(t.Context(), catalog.Tombstone{Host: "bad.jp", Reason: "a letter"})
	testkit.Must(t, err)
	h.update()
	if holds(rows()) == 0 {
		t.Error("rows of what may be restored are gone")
	}
	h.erase("bad.jp")
	h.update()
	for r, err := range rowsOf(t.Context(), h.view(), urlindex.Range{}) {
		testkit.Must(t, err)
		if strings.Contains(r.URL, "secret") {
			t.Errorf("%s of line %d is still there", r.URL, r.Seq)
		}
	}
	h.onlyLive()
	if n := holds(rows()); n > 0 {
		t.Errorf("%d objects hold what was erased", n)
	}
}

// What a robot brought is erased, and what others brought of the same host stays.
func TestErasedRobotLeavesOthers(t *testing.T) {
	h := newHistory(t, 7)
	h.publish(page("http://a.jp/", "true", h.now))
	h.robot = "r2"
	h.publish(page("http://a.jp/", "forged", h.now.Add(time.Hour)))
	h.update()
	_, _, err := h.catalog.RemoveWhole(t.Context(), catalog.Tombstone{Robot: "r2", Since: h.now.Add(-time.Hour), Reason: "stolen key", By: "test"})
	testkit.Must(t, err)
	for range 2 {
		h.now = h.now.Add(60 * time.Hour)
		h.collect(time.Hour * 24 * 365)
	}
	h.update()
	h.check("after the robot's erasure")
	n := 0
	for _, err := range rowsOf(t.Context(), h.view(), urlindex.Range{}) {
		testkit.Must(t, err)
		n++
	}
	if n == 0 {
		t.Error("the row of r1 is gone")
	}
	h.clean()
}

// With a lag the reader keeps its view until the lag has passed. A store that fails leaves it the
// view.
func TestReaderLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		r := urlindex.NewReader(s.store, urlindex.ReaderOptions{Lag: time.Second})
		through := func() int64 {
			v, err := r.Current(t.Context())
			testkit.Must(t, err)
			return v.Through()
		}
		through()
		s.publish(page("http://a.jp/", "a", noon))
		s.update()
		if n := through(); n != 0 {
			t.Errorf("through %d before the lag has passed", n)
		}
		time.Sleep(time.Second)
		if n := through(); n != 1 {
			t.Errorf("through %d after the lag", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		time.Sleep(time.Second)
		if v, err := r.Current(ctx); err == nil && v.Through() != 1 || v == nil || v.Through() != 1 {
			t.Errorf("with a failing store: %v, %v", v, err)
		}
	})
}

// Concurrent readers, builders and publishers see a consistent index.
func TestAtOnce(t *testing.T) {
	h := newHistory(t, 3)
	reader := urlindex.NewReader(h.store, urlindex.ReaderOptions{CacheBytes: 64 << 10})
	done := make(chan struct{})
	var work sync.WaitGroup
	for range 2 {
		work.Go(func() {
			b := urlindex.NewBuilder(h.catalog, h.store, h.opt)
			for through := int64(0); through < 40; {
				if err := b.Update(t.Context()); err != nil {
					t.Error(err)
					return
				}
				v, err := reader.Current(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				through = v.Through()
			}
		})
		work.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				v, err := reader.Current(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				n := int64(0)
				for _, err := range rowsOf(t.Context(), v, urlindex.Range{}) {
					if err != nil {
						t.Error(err)
						return
					}
					n++
				}
				if n != v.Records() {
					t.Errorf("%d rows, want %d", n, v.Records())
				}
			}
		})
	}
	for range 40 {
		h.publish(page("http://a.jp/", fmt.Sprint(h.batches), h.now.Add(time.Duration(h.batches)*time.Second)))
	}
	h.update()
	close(done)
	work.Wait()
	h.check("at the end")
	h.clean()
}

// While one reader waits for a store that does not answer, the others go on with their view.
func TestSlowStoreHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.publish(page("http://a.jp/", "a", noon))
		s.update()
		stalls := false
		slow := &storetest.Fault{Store: s.store, DecideRead: func(string, string) storetest.Outcome {
			if stalls {
				return storetest.Stalls
			}
			return storetest.Works
		}}
		r := urlindex.NewReader(slow, urlindex.ReaderOptions{Lag: time.Second})
		_, err := r.Current(t.Context())
		testkit.Must(t, err)
		stalls = true
		time.Sleep(2 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		go r.Current(ctx)
		synctest.Wait() // the first reader hangs in the store
		v, err := r.Current(t.Context())
		if err != nil || v.Through() != 1 {
			t.Errorf("while another reader waits: through %d, %v", v.Through(), err)
		}
		cancel()
	})
}
