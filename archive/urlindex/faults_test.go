package urlindex_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store/storetest"
	"sheaf/archive/urlindex"
	"sheaf/internal/testkit"
)

// killed is the panic that stops a builder.
type killed struct{ at string }

// withErased returns a history whose next Update builds; then a sweep and merges follow.
func withErased(t *testing.T) *history {
	h := newHistory(t, 7)
	for i := range 6 {
		h.now = h.now.Add(time.Hour)
		h.publish(page("http://a.jp/", fmt.Sprint(i), h.now), page("http://bad.jp/secret", fmt.Sprint(i), h.now))
		if i < 5 {
			h.update()
		}
	}
	return h
}

// erase takes a host down and erases it.
func (h *history) erase(host string) {
	h.t.Helper()
	_, err := h.catalog.Remove(h.t.Context(), catalog.Tombstone{Host: host, Reason: "test"})
	testkit.Must(h.t, err)
	for range 2 {
		h.now = h.now.Add(60 * time.Hour)
		h.collect(0)
	}
}

// run calls Update until nothing is left to do. If die returns true at a boundary, the builder is
// stopped there, and run returns the boundary.
func (h *history) run(die func(write, when string) bool) (at string) {
	h.t.Helper()
	opt := h.opt
	opt.Boundary = func(write, when string) {
		if die(write, when) {
			panic(killed{write + " " + when})
		}
	}
	defer func() {
		switch dead := recover().(type) {
		case nil:
		case killed:
			at = dead.at
		default:
			panic(dead)
		}
	}()
	testkit.Must(h.t, urlindex.NewBuilder(h.catalog, h.store, opt).Update(h.t.Context()))
	return ""
}

// If a builder is stopped before or after any write, the next one goes on from there.
func TestKilledAnywhere(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	died := make(map[string]bool)
	for _, write := range urlindex.Boundaries() {
		if strings.HasPrefix(write, "reset") {
			continue // TestDamageHeals covers it
		}
		for _, when := range []string{"before", "after"} {
			h := withErased(t)
			at := func(w, at string) bool { return w == write && at == when }
			dead := h.run(at)
			h.check("killed " + dead)
			h.erase("bad.jp")
			if dead == "" {
				dead = h.run(at)
				h.check("killed " + dead)
			}
			died[dead] = true
			h.update()
			h.check("after the death " + dead)
			h.clean()
			h.onlyLive()
		}
	}
	if want := 2 * (len(urlindex.Boundaries()) - 1); len(died) != want || died[""] {
		t.Errorf("stopped at %d boundaries, want %d: %v", len(died), want, died)
	}
}

// Writes that fail, writes that fail but happened, and reads that fail do not lose or damage
// anything.
func TestFaults(t *testing.T) {
	testkit.Slow(t)
	for seed := range rounds() {
		h := newHistory(t, uint64(100+seed))
		random := rand.New(rand.NewPCG(uint64(seed), 9))
		var mu sync.Mutex // guards random and failed
		failed := 0
		decide := func(outcomes ...storetest.Outcome) func(op, key string) storetest.Outcome {
			return func(_, key string) storetest.Outcome {
				mu.Lock()
				defer mu.Unlock()
				if !strings.HasPrefix(key, urlindex.KeyPrefix) && !strings.HasPrefix(key, "segments/") || random.IntN(20) > 0 {
					return storetest.Works
				}
				failed++
				return outcomes[random.IntN(len(outcomes))]
			}
		}
		faulty := &storetest.Fault{Store: h.store, Decide: decide(storetest.Fails, storetest.FailsButHappened, storetest.Truncates),
			DecideRead: decide(storetest.Fails, storetest.Truncates)}
		for range 12 {
			h.act()
			for tries := 0; ; tries++ {
				err := urlindex.NewBuilder(h.catalog, faulty, h.opt).Update(t.Context())
				if err == nil {
					break
				}
				if !errors.Is(err, storetest.ErrInjected) || tries > 200 {
					t.Fatal(err)
				}
			}
			h.check("after faults")
		}
		h.clean()
		if failed == 0 {
			t.Error("nothing failed")
		}
		for _, key := range h.store.(*damageable).keys("urls/state/") {
			if strings.Contains(string(h.store.(*damageable).read(key)), `"kind":"reset"`) {
				t.Errorf("%s: a failing store was taken for a damaged index", key)
			}
		}
	}
}

// A reader's error names the bad block and fsck finds any damage. The next merge or an operator's
// reset repairs the index.
func TestDamageHeals(t *testing.T) {
	testkit.Slow(t)
	flip := func(data []byte) []byte { data[len(data)/2] ^= 0x20; return data }
	cut := func(data []byte) []byte { return data[:len(data)/2] }
	for _, file := range []string{"cdx.gz", "cluster.idx", "location.txt", "pages", "state"} {
		for name, change := range map[string]func([]byte) []byte{"flip": flip, "cut": cut} {
			t.Run(file+" "+name, func(t *testing.T) {
				h := withErased(t)
				h.update()
				m := h.store.(*damageable)
				spoilt := slices.DeleteFunc(m.keys("urls/runs/"), func(key string) bool { return !strings.HasSuffix(key, "/"+file) })
				if file == "state" { // not every byte of a state is checked by another object
					change = map[string]func([]byte) []byte{"flip": func(data []byte) []byte { data[0] ^= 0x20; return data }, "cut": cut}[name]
					states := m.keys("urls/state/")
					spoilt = states[len(states)-1:]
				}
				for _, key := range spoilt {
					m.spoil(key, change)
				}
				report, err := catalog.Fsck(t.Context(), h.store, catalog.FsckOptions{TempDir: t.TempDir(), Index: urlindex.NewIndex(h.store)})
				testkit.Must(t, err)
				if report.OK() {
					t.Error("fsck found nothing")
				}
				if file != "location.txt" { // only other programs read it
					if err := h.readAll(); err == nil || !strings.Contains(err.Error(), spoilt[0][:len("urls/")]) || !strings.Contains(err.Error(), file) {
						t.Errorf("a reader said: %v", err)
					}
				}
				testkit.Must(t, h.builder().Reset(t.Context()))
				h.update()
				h.check("healed")
				h.clean()
			})
		}
	}
}

// readAll reads the whole index with a new reader.
func (h *history) readAll() error {
	v, err := h.reader().Current(h.t.Context())
	if err != nil {
		return err
	}
	for _, err := range rowsOf(h.t.Context(), v, urlindex.Range{}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// A new builder that finds objects of the index missing builds it again.
func TestUpdateHeals(t *testing.T) {
	h := newHistory(t, 1)
	for i := range 4 {
		h.publish(page("http://a.jp/", fmt.Sprint(i), h.now))
		if i == 3 {
			for _, key := range h.store.(*damageable).keys("urls/runs/") {
				testkit.Must(t, h.store.Delete(t.Context(), key))
			}
		}
		h.update()
	}
	h.check("after loss")
	h.clean()
}

// An index of another catalog is not used.
func TestOtherCatalog(t *testing.T) {
	h := newHistory(t, 1)
	h.publish(page("http://a.jp/", "a", h.now))
	h.update()
	m := h.store.(*damageable)
	for _, key := range m.keys("catalog/") {
		testkit.Must(t, m.Delete(t.Context(), key))
	}
	o := newSiteIn(t, h.store)
	o.batches, o.now = 10, noon.Add(time.Hour)
	o.publish(page("http://a.jp/other", "b", o.now))
	v, err := o.reader().Current(t.Context())
	if !errors.Is(err, urlindex.ErrOther) || v.Covers(1) {
		t.Errorf("a reader took the index of another catalog: through %d, %v", v.Through(), err)
	}
	o.update()
	same(t, "anew", o.indexed(o.view(), urlindex.Range{}), o.visible())
}

// A segment with a damaged index becomes a hole, and is added when it is whole again.
func TestHole(t *testing.T) {
	h := newHistory(t, 1)
	h.publish(page("http://a.jp/", "a", h.now), page("http://b.jp/", "b", h.now))
	m := h.store.(*damageable)
	key := m.keys("segments/jp/a/")[0]
	flip := func(data []byte) []byte { data[len(data)-100] ^= 1; return data }
	m.spoil(key, flip)
	h.update()
	v := h.view()
	if v.Through() != 2 || v.Covers(1) || !v.Covers(2) {
		t.Errorf("through %d, covers %v and %v", v.Through(), v.Covers(1), v.Covers(2))
	}
	m.spoil(key, flip)
	h.publish(page("http://c.jp/", "c", h.now))
	h.update()
	if v := h.view(); !v.Covers(1) {
		t.Error("the hole was not filled")
	}
	h.check("filled")
	h.clean()
}
