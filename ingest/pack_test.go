package ingest_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/archive/store"
	"sheaf/archive/store/storetest"
	"sheaf/ingest/split"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"
)

// allPacked puts all hosts of a test into packs.
var allPacked = split.Packs{Below: 1 << 30, Size: 1 << 30}

// packedSites returns hosts that are not sorted, small ones and a larger one.
func packedSites() []batchtest.Host {
	return []batchtest.Host{
		batchtest.Site("www.waseda.ac.jp", 2), batchtest.Site("192.0.2.7", 1), batchtest.Site("a.example.jp:8080", 2),
		batchtest.Site("large.example.jp", 300), batchtest.Site("waseda.ac.jp", 1), batchtest.Site("empty.example.jp", 0),
		batchtest.Site("b.example.jp", 2), batchtest.Site("a.example.jp", 1),
	}
}

func TestPacks(t *testing.T) {
	for name, c := range map[string]struct {
		packs split.Packs
		own   int // hosts with an object of their own
	}{
		"off":   {split.Packs{}, 8},
		"all":   {allPacked, 0},
		"mixed": {split.Packs{Below: 20_000}, 1},
		"small": {split.Packs{Below: 20_000, Size: 6_000}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := newInstallation(t)
			h.opt.Packs = c.packs
			h.open().run()
			b := batchtest.Make(t, h.robots, 1, packedSites()...)
			h.accept(b)
			h.await(b.ID, wire.StatePublished)
			own, packs := 0, make(map[string][]catalog.SegmentEntry)
			for _, site := range packedSites() {
				lines := h.lines(site.Name)
				if len(lines) != 1 {
					t.Fatalf("%s has %d lines", site.Name, len(lines))
				}
				h.verify(lines[0])
				if strings.HasPrefix(lines[0].Object, "segments/") {
					own++
				} else {
					packs[lines[0].Object] = append(packs[lines[0].Object], lines[0])
				}
			}
			if own != c.own {
				t.Errorf("%d hosts have an object of their own, want %d", own, c.own)
			}
			h.checkPacks(packs, b, c.packs.Size)
			h.fsck()
		})
	}
}

// checkPacks compares packs with their entries: sorted across all packs, without gaps, and within
// the size.
func (h *installation) checkPacks(packs map[string][]catalog.SegmentEntry, b *batchtest.Batch, size int64) {
	h.t.Helper()
	last := ""
	for n := range len(packs) {
		object := "packs/20261120/" + string(b.ID) + "-1-" + strconv.Itoa(n+1) + ".tar.gz"
		lines := packs[object]
		slices.SortFunc(lines, func(a, b catalog.SegmentEntry) int { return int(a.Offset - b.Offset) })
		at := int64(0)
		for _, l := range lines {
			if key := catalog.Key(l.Host); key <= last {
				h.t.Errorf("%s lies behind %s", key, last)
			} else {
				last = key
			}
			if l.Offset != at {
				h.t.Errorf("%s: %s lies at %d, want %d", object, l.Host, l.Offset, at)
			}
			at += l.Length
		}
		info, err := h.store.Stat(h.t.Context(), object)
		testkit.Must(h.t, err)
		if info.Size != at || size > 0 && at > size {
			h.t.Errorf("%s has %d bytes, its lines %d, allowed are %d", object, info.Size, at, size)
		}
	}
	if size == 6_000 && len(packs) < 2 {
		h.t.Error("all in one pack: the test does not see a second one")
	}
}

// fsck checks all that is published.
func (h *installation) fsck() {
	h.t.Helper()
	report, err := catalog.Fsck(h.t.Context(), h.store, catalog.FsckOptions{Deep: true, TempDir: h.t.TempDir()})
	testkit.Must(h.t, err)
	if !report.OK() || report.Verified != report.Segments {
		h.t.Errorf("fsck: %+v", report)
	}
}

// GNU tar lists and unpacks a pack if it is told to read on behind end marks.
func TestPackIsTarGz(t *testing.T) {
	h := newInstallation(t)
	h.opt.Packs = allPacked
	h.open().run()
	b := batchtest.Make(t, h.robots, 1, packedSites()...)
	h.accept(b)
	h.await(b.ID, wire.StatePublished)
	pack := filepath.Join(h.dir, "objects", h.lines("b.example.jp")[0].Object)
	dir := t.TempDir()
	run(t, "tar", "--ignore-zeros", "-xzf", pack, "-C", dir)
	for _, site := range packedSites() {
		if site.Name == "empty.example.jp" {
			continue
		}
		got, err := os.ReadFile(filepath.Join(dir, naming.HostDir(site.Name), "0.html"))
		testkit.Must(t, err)
		for page := range site.Each {
			if !bytes.Equal(got, page.Body) {
				t.Errorf("%s: page is %q", site.Name, got)
			}
			break
		}
	}
	run(t, "gzip", "-t", pack)
}

// A batch that is refused at its last byte has stored no pack.
func TestRefusedBatchStoresNoPack(t *testing.T) {
	h := newInstallation(t)
	h.opt.Packs = allPacked
	h.open().run()
	b := batchtest.Make(t, h.robots, 1, packedSites()...)
	b.Data[len(b.Data)-1] ^= 1
	h.accept(b)
	h.await(b.ID, wire.StateQuarantined)
	for info, err := range h.store.List(t.Context(), "", "") {
		testkit.Must(t, err)
		t.Errorf("%s is stored", info.Key)
	}
}

// A pack is sent again, from its start, after every way in which a store can fail.
func TestPackIsSentAgain(t *testing.T) {
	h := newInstallation(t)
	tries := 0
	fault := &storetest.Fault{Store: h.store, Decide: func(_, key string) storetest.Outcome {
		if !strings.HasPrefix(key, "packs/") {
			return storetest.Works
		}
		tries++
		return []storetest.Outcome{storetest.Fails, storetest.Truncates, storetest.FailsButHappened}[tries-1]
	}}
	h.store = store.NewRetry(fault, store.RetryOptions{Attempts: 4, First: 1, Most: 2})
	h.opt.Packs = allPacked
	h.open().run()
	b := batchtest.Make(t, h.robots, 1, packedSites()...)
	h.accept(b)
	h.await(b.ID, wire.StatePublished)
	if tries != 3 {
		t.Errorf("%d tries, want 3", tries)
	}
	h.fsck()
}

// What is stored is what was verified: a batch file that changes in between is not packed.
func TestBatchFileChangesBeforeItIsPacked(t *testing.T) {
	h := newInstallation(t)
	h.opt.Packs = allPacked
	var b *batchtest.Batch
	h.opt.Boundary = func(write, when string) {
		if write != "stage" || when != "before" {
			return
		}
		f, err := os.OpenFile(filepath.Join(h.opt.Dir, "batches", string(b.ID), "batch.tar.gz"), os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteAt([]byte{b.Data[100] ^ 1}, 100)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Error(err)
		}
	}
	h.open()
	b = batchtest.Make(t, h.robots, 1, packedSites()...)
	h.accept(b)
	h.run()
	if r := h.await(b.ID, wire.StateQuarantined); r.Reason != wire.ReasonSHAMismatch { // at the second attempt
		t.Errorf("receipt %+v", r)
	}
	for info, err := range h.store.List(t.Context(), "packs/", "") {
		testkit.Must(t, err)
		t.Errorf("%s is stored", info.Key)
	}
}
