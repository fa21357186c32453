package urlindex_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/archive/urlindex"
	"sheaf/internal/testkit"
)

// history changes a site at random: it publishes, takes down, lifts, erases and lets lines expire.
// It updates the index from time to time.
type history struct {
	*site
	rand  *rand.Rand
	down  []catalog.Tombstone
	pages []*archive.Record // recent publications, for revisits
}

func newHistory(t testing.TB, seed uint64) *history {
	return &history{site: newSite(t), rand: rand.New(rand.NewPCG(seed, 1))}
}

// url returns one of few URLs on few hosts. Hosts with and without "www." share URL keys.
func (h *history) url() string {
	host := []string{"a.jp", "www.a.jp", "b.a.jp", "a.jp:8080", "b-x.jp", "[2001:db8::1]", "192.0.2.7", "z.jp"}[h.rand.IntN(8)]
	return fmt.Sprintf("%s://%s/%s", []string{"http", "https"}[h.rand.IntN(2)], host, []string{"", "x", "X?b=1&a=2", `"q\`, "%E3%81%82", "dir/page.html", "~u", "d/"}[h.rand.IntN(8)])
}

func (h *history) records() []*archive.Record {
	var all []*archive.Record
	for range 1 + h.rand.IntN(30) {
		at := h.now.Add(time.Duration(h.rand.IntN(3))*time.Second + time.Duration(h.rand.IntN(3))*time.Millisecond)
		if len(h.pages) > 0 && h.rand.IntN(4) == 0 {
			p := h.pages[h.rand.IntN(len(h.pages))]
			all = append(all, again(p.URL, p.URL, p.Time, at))
			continue
		}
		u := h.url()
		p := page(u, u, at)
		h.pages, all = append(h.pages, p), append(all, p)
	}
	return all
}

// act performs one random change.
func (h *history) act() {
	h.t.Helper()
	ctx := h.t.Context()
	h.now = h.now.Add(10 * time.Hour)
	switch n := h.rand.IntN(10); {
	case n < 5:
		h.publish(h.records()...)
	case n < 7:
		host, err := naming.HostOf(h.url())
		testkit.Must(h.t, err)
		t := catalog.Tombstone{Host: host, Reason: "test"}
		if h.rand.IntN(2) == 0 {
			t.Edition = h.now.Add(-time.Duration(h.rand.IntN(40)) * time.Hour).Format("20060102")
		}
		if slices.Contains(h.down, t) {
			return
		}
		_, err = h.catalog.Remove(ctx, t)
		testkit.Must(h.t, err)
		h.down = append(h.down, t)
	case n < 8 && len(h.down) > 0:
		i := h.rand.IntN(len(h.down))
		_, err := h.catalog.Restore(ctx, h.down[i])
		testkit.Must(h.t, err)
		h.down = slices.Delete(h.down, i, i+1)
	default: // erasures and expiries happen in a collection
		h.now = h.now.Add(30 * time.Hour)
		h.collect(120 * time.Hour)
	}
}

// collect runs a collection with a clock far ahead of the store's, so that nothing is too young.
func (h *history) collect(keep time.Duration) *catalog.Collection {
	h.t.Helper()
	r, err := h.catalog.Collect(h.t.Context(), catalog.CollectOptions{
		Index: urlindex.NewIndex(h.store),
		Retention: catalog.Retention{Keep: keep, Expendable: func(_ context.Context, lines []catalog.SegmentEntry, n int) ([]bool, error) {
			some := make([]bool, n)
			for i := range some {
				some[i] = h.rand.IntN(2) == 0
			}
			return some, nil
		}},
	})
	testkit.Must(h.t, err)
	return r
}

// check compares the index with the segments' own indexes, also over random ranges.
func (h *history) check(what string) {
	h.t.Helper()
	v := h.view()
	want := slices.DeleteFunc(h.visible(), func(r *urlindex.Row) bool { return !v.Covers(r.Seq) })
	same(h.t, what, h.indexed(v, urlindex.Range{}), want)
	backward := slices.Clone(want)
	slices.Reverse(backward)
	same(h.t, what+", backward", h.indexed(v, urlindex.Range{Reverse: true}), backward)
	for range 8 {
		key := naming.SURT(h.url())
		in := urlindex.Exact(key)
		holds := func(r *urlindex.Row) bool { return r.URLKey == key }
		if h.rand.IntN(2) == 0 {
			key = key[:h.rand.IntN(len(key)+1)]
			in = urlindex.Prefix(key)
			holds = func(r *urlindex.Row) bool { return len(r.URLKey) >= len(key) && r.URLKey[:len(key)] == key }
		}
		in.Reverse = h.rand.IntN(2) == 0
		some := slices.DeleteFunc(slices.Clone(want), func(r *urlindex.Row) bool { return !holds(r) })
		if in.Reverse {
			slices.Reverse(some)
		}
		if len(some) > 0 && h.rand.IntN(2) == 0 {
			i := h.rand.IntN(len(some))
			at := some[i].Position()
			in.After, some = &at, some[i+1:]
		} else if len(want) > 0 && h.rand.IntN(2) == 0 { // a position outside the range
			at := want[h.rand.IntN(len(want))].Position()
			in.After = &at
			some = slices.DeleteFunc(some, func(r *urlindex.Row) bool {
				d := r.Position().Compare(at)
				return d <= 0 && !in.Reverse || d >= 0 && in.Reverse
			})
		}
		same(h.t, fmt.Sprintf("%s, %q %+v after %+v", what, key, in, in.After), h.indexed(v, in), some)
		if n, err := v.Blocks(h.t.Context(), in); err != nil || len(some) > 0 && n == 0 {
			h.t.Errorf("%s: %q: %d rows in %d blocks, %v", what, key, len(some), n, err)
		}
	}
}

// clean runs a deep fsck, which must find nothing.
func (h *history) clean() *catalog.Report {
	h.t.Helper()
	r, err := catalog.Fsck(h.t.Context(), h.store, catalog.FsckOptions{
		TempDir: h.t.TempDir(), Deep: true, Index: urlindex.NewIndex(h.store),
	})
	testkit.Must(h.t, err)
	for _, p := range r.Problems {
		h.t.Errorf("fsck: %s: %s", p.Where, p.Detail)
	}
	return r
}

// Whatever happens to published records, the index agrees with the segments. SHEAF_TEST_ROUNDS is
// the number of histories, 3 by default.
func TestIndexIsSegments(t *testing.T) {
	testkit.Slow(t)
	for seed := range rounds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := newHistory(t, uint64(seed))
			for n := range 30 {
				h.act()
				if h.rand.IntN(3) == 0 {
					h.check("before") // with an index that is behind
					h.update()
					h.check(fmt.Sprintf("step %d", n))
				}
			}
			h.update()
			h.check("at the end")
			h.clean()
			h.onlyLive()
		})
	}
}

// onlyLive collects everything that is not needed, and checks that nothing else is in the store.
func (h *history) onlyLive() {
	h.t.Helper()
	for range 8 { // an erasure rewrites runs, which leaves the old ones for the next collection
		h.now = h.now.Add(30 * time.Hour)
		if r := h.collect(0); r.Condemned.Objects+r.Waiting.Objects+r.Deleted.Objects == 0 {
			break
		}
		h.update()
	}
	h.check("after collection")
	if r := h.clean(); r.LeftOver > 0 || r.Orphans > 0 {
		h.t.Errorf("%d objects are left over, and the orphans %v", r.LeftOver, r.OrphanKeys)
	}
}
