package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/store/storetest"
)

// later is a clock that runs ahead of the store's by what it was told to.
type later struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (l *later) now() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Add(l.ahead)
}

func (l *later) wait(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ahead += d
}

// claims claims the objects whose keys end with one of the batches.
func claims(batches ...string) func(context.Context) (func(string) bool, error) {
	return func(context.Context) (func(string) bool, error) {
		return func(key string) bool {
			return slices.ContainsFunc(batches, func(id string) bool { return strings.HasSuffix(key, id) })
		}, nil
	}
}

func keys(t testing.TB, st store.Store, prefix string) (all []string) {
	t.Helper()
	for info, err := range st.List(t.Context(), prefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, info.Key)
	}
	return all
}

// litter fills a store with all that there is to collect, beside what must stay.
func litter(t testing.TB, st store.Store, clock *later, opt catalog.Options) *catalog.Catalog {
	t.Helper()
	opt.Fanout, opt.Now = 2, clock.now
	c := openWith(t, st, opt)
	for i := range 5 {
		id := fmt.Sprintf("b%d", i)
		publish(t, c, publication(id, putSegment(t, st, "a.jp", id), putSegment(t, st, "bad.jp", id), putSegment(t, st, "half.jp", id)))
		if err := c.Merge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"failed", "live"} {
		putSegment(t, st, "a.jp", id)
	}
	refused := &storetest.Fault{Store: st, Decide: func(_, key string) storetest.Outcome {
		if strings.HasPrefix(key, "catalog/") {
			return storetest.Fails
		}
		return storetest.Works
	}}
	if _, err := openWith(t, refused, opt).Publish(t.Context(), publication("lost")); err == nil {
		t.Fatal("published without a log")
	}
	pack := "packs/one"
	text := segmentText("a.jp", "pack") + segmentText("bad.jp", "pack")
	if err := st.Put(t.Context(), pack, strings.NewReader(text), int64(len(text))); err != nil {
		t.Fatal(err)
	}
	good, bad := segment("a.jp", "pack"), segment("bad.jp", "pack")
	good.Object, bad.Object, bad.Offset = pack, pack, good.Length
	publish(t, c, publication("pack", good, bad))
	if err := st.Put(t.Context(), "batches/old.manifest", strings.NewReader("{}"), 2); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Remove(t.Context(), catalog.Tombstone{Host: "bad.jp"}, catalog.Tombstone{Host: "half.jp", Edition: editionOf(t, c, "b1")},
		catalog.Tombstone{Host: "a.jp", URLPrefix: "http://a.jp/x"}); err != nil {
		t.Fatal(err)
	}
	return c
}

func editionOf(t testing.TB, c *catalog.Catalog, batch string) string {
	t.Helper()
	v, ok, err := pin(t, c).Batch(t.Context(), batch)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return v.Edition
}

func gc(t testing.TB, c *catalog.Catalog, opt catalog.CollectOptions) *catalog.Collection {
	t.Helper()
	if opt.Claims == nil {
		opt.Claims = claims("live")
	}
	report, err := c.Collect(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// wantCollected checks what is left when all that litter made is collected.
func wantCollected(t testing.TB, st store.Store, c *catalog.Catalog) {
	t.Helper()
	want := []string{"segments/a.jp/b0", "segments/a.jp/b1", "segments/a.jp/b2", "segments/a.jp/b3", "segments/a.jp/b4", "segments/a.jp/live",
		"segments/half.jp/b0", "segments/half.jp/b2", "segments/half.jp/b3", "segments/half.jp/b4"}
	if got := keys(t, st, "segments/"); !slices.Equal(got, want) {
		t.Errorf("segments left: %q, want %q", got, want)
	}
	if got := keys(t, st, "gc/"); len(got) != 0 {
		t.Errorf("lists left: %q", got)
	}
	if got := keys(t, st, "packs/"); len(got) != 1 {
		t.Errorf("packs left: %q", got)
	}
	if report := wantClean(t, st); report.Orphans != 1 {
		t.Errorf("orphans: %q, want the one that is claimed", report.OrphanKeys)
	}
	s := pin(t, c)
	wantHost(t, s, "a.jp", "b0 b1 b2 b3 b4 pack")
	wantHost(t, s, "bad.jp", "")
	wantHost(t, s, "half.jp", "b0 b2 b3 b4")
}

func TestCollect(t *testing.T) {
	st, clock := newStore(t), new(later)
	c := litter(t, st, clock, catalog.Options{})
	all := keys(t, st, "")
	if r := gc(t, c, catalog.CollectOptions{}); r.Deleted.Objects != 0 || r.Young != 3 {
		t.Errorf("objects of just now: %+v", r)
	}
	clock.wait(25 * time.Hour)
	if r := gc(t, c, catalog.CollectOptions{DryRun: true}); r.Condemned.Objects != 2 || r.Waiting.Objects != 0 || r.Deleted.Objects != 8 {
		t.Errorf("dry run: %+v", r)
	}
	r := gc(t, c, catalog.CollectOptions{})
	if r.Shared != 1 || r.URLs != 1 || r.Claimed != 1 {
		t.Errorf("first pass: %+v", r)
	}
	clock.wait(23 * time.Hour)
	for range 3 {
		gc(t, c, catalog.CollectOptions{})
		clock.wait(25 * time.Hour)
	}
	for _, key := range keys(t, st, "") {
		if !slices.Contains(all, key) && !strings.HasPrefix(key, "catalog/") && !strings.HasPrefix(key, "runs/") {
			t.Errorf("%s was not there before", key)
		}
	}
	wantCollected(t, st, c)
}

// Nothing is deleted before the delay has passed since it was condemned.
func TestCollectWaits(t *testing.T) {
	st, clock := newStore(t), new(later)
	c := litter(t, st, clock, catalog.Options{})
	clock.wait(30 * time.Hour)
	first := gc(t, c, catalog.CollectOptions{})
	clock.wait(23 * time.Hour)
	before := keys(t, st, "")
	if r := gc(t, c, catalog.CollectOptions{}); r.Deleted.Objects != 0 || r.Condemned.Objects != 0 || r.Waiting.Objects != first.Condemned.Objects {
		t.Errorf("within the delay: %+v", r)
	}
	if after := keys(t, st, ""); !slices.Equal(after, before) {
		t.Errorf("within the delay the store became %q", after)
	}
	clock.wait(2 * time.Hour)
	dry := gc(t, c, catalog.CollectOptions{DryRun: true})
	if after := keys(t, st, ""); !slices.Equal(after, before) {
		t.Error("a dry run wrote")
	}
	if r := gc(t, c, catalog.CollectOptions{}); r.Deleted.Objects != first.Condemned.Objects || dry.Deleted.Objects != r.Deleted.Objects {
		t.Errorf("after the delay: %+v; the dry run said %+v", r, dry)
	}
	if _, err := c.Collect(t.Context(), catalog.CollectOptions{Delay: time.Hour}); err == nil {
		t.Error("collects what a snapshot may still read")
	}
}

// Where the log has lost its end nothing is collected: what the lost versions
// published would look like what nothing needs.
func TestCollectNoticesLostVersions(t *testing.T) {
	st, clock := newStore(t), new(later)
	litter(t, st, clock, catalog.Options{})
	clock.wait(25 * time.Hour)
	gc(t, openWith(t, st, catalog.Options{Now: clock.now}), catalog.CollectOptions{})
	versions := keys(t, st, "catalog/")
	if err := st.Delete(t.Context(), versions[len(versions)-1]); err != nil {
		t.Fatal(err)
	}
	clock.wait(25 * time.Hour)
	before := keys(t, st, "")
	c := openWith(t, st, catalog.Options{Now: clock.now})
	if _, err := c.Collect(t.Context(), catalog.CollectOptions{Claims: claims()}); !errors.Is(err, catalog.ErrCorrupt) {
		t.Errorf("collected: %v", err)
	}
	if after := keys(t, st, ""); !slices.Equal(after, before) {
		t.Errorf("left: %q", after)
	}
}

// A take-down that is lifted before the second pass keeps all; one that is
// lifted after it brings back what is published from then on.
func TestCollectAndLift(t *testing.T) {
	for name, limit := range map[string]catalog.Tombstone{
		"host": {}, "edition": {Edition: "first"}, "collection": {Collection: "old"}, "robot": {Robot: "robot", Since: noon.Add(-time.Hour)},
	} {
		t.Run(name, func(t *testing.T) { collectAndLift(t, limit) })
	}
}

// collectAndLift is TestCollectAndLift for a take-down that is limited to an edition, "first" for
// the first, to a collection or to a robot.
func collectAndLift(t *testing.T, stone catalog.Tombstone) {
	stone.Host, stone.Reason, stone.By = "bad.jp", "court", "op"
	for _, deleted := range []bool{false, true} {
		st, clock := newStore(t), new(later)
		c := openWith(t, st, catalog.Options{Now: clock.now, Fanout: 2})
		bad := putSegment(t, st, "bad.jp", "b1")
		bad.Collection = stone.Collection
		v := publish(t, c, publication("b1", bad, putSegment(t, st, "a.jp", "b1")))
		if stone.Edition != "" {
			stone.Edition = v.Edition
		}
		remove := func() {
			if _, err := c.Remove(t.Context(), stone); err != nil {
				t.Fatal(err)
			}
		}
		remove()
		clock.wait(25 * time.Hour)
		gc(t, c, catalog.CollectOptions{})
		clock.wait(25 * time.Hour)
		want := "b1 late"
		if deleted {
			gc(t, c, catalog.CollectOptions{})
			want = "late"
		}
		if _, err := c.Restore(t.Context(), stone); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Restore(t.Context(), stone); !errors.Is(err, catalog.ErrNotExist) {
			t.Errorf("lifted twice: %v", err)
		}
		gc(t, c, catalog.CollectOptions{})
		publish(t, c, publication("late", putSegment(t, st, "bad.jp", "late")))
		if err := c.Merge(t.Context()); err != nil {
			t.Fatal(err)
		}
		s := pin(t, open(t, st))
		wantHost(t, s, "bad.jp", want)
		if got := keys(t, st, "segments/bad.jp/"); len(got) != len(strings.Fields(want)) {
			t.Errorf("segments left: %q", got)
		}
		acts := ""
		stones, err := s.Takedowns(t.Context(), "bad.jp")
		for _, d := range stones {
			acts += fmt.Sprintf("%q ", d.Act)
		}
		if want := map[bool]string{false: `"" "lift" `, true: `"" "erase" "lift" `}[deleted]; err != nil || acts != want {
			t.Errorf("on record: %s, want %s; %v", acts, want, err)
		}
		wantClean(t, st)
		old := pin(t, c)
		remove()
		left := ""
		if stone.Edition+stone.Collection != "" {
			left = "late" // is of neither
		}
		wantHost(t, old, "bad.jp", left)
	}
}

// Wherever a collection dies, and whichever of its writes fails in either way,
// those that follow finish it.
func TestCollectFaults(t *testing.T) {
	passes := func(c *catalog.Catalog, clock *later) error {
		for range 3 {
			clock.wait(25 * time.Hour)
			if _, err := c.Collect(t.Context(), catalog.CollectOptions{Claims: claims("live")}); err != nil {
				return err
			}
		}
		return nil
	}
	try := func(name string, step int, wrap func(store.Store, *catalog.Options) store.Store) (reached bool) {
		st, clock := newStore(t), new(later)
		litter(t, st, clock, catalog.Options{})
		opt := catalog.Options{Fanout: 2, Now: clock.now}
		faulty := wrap(st, &opt)
		func() {
			defer func() {
				if r := recover(); r != nil && r != "killed" {
					panic(r)
				}
			}()
			_ = passes(openWith(t, faulty, opt), clock)
		}()
		if report := wantClean(t, st); !report.OK() {
			t.Errorf("%s %d: fsck complains", name, step)
		}
		c := openWith(t, st, catalog.Options{Fanout: 2, Now: clock.now})
		if err := passes(c, clock); err != nil {
			t.Fatalf("%s %d: repeated: %v", name, step, err)
		}
		wantCollected(t, st, c)
		return !t.Failed()
	}
	for _, when := range []string{"before", "after"} {
		for _, write := range []string{"condemn", "erase-run", "erase-version", "collect", "collected"} {
			died := false
			try("killed "+when+" "+write, 0, func(st store.Store, opt *catalog.Options) store.Store {
				n := 0
				opt.Boundary = func(w, at string) {
					if w == write && at == when {
						if n++; n == 1+len(write)%2 || write != "collect" {
							died = true
							panic("killed")
						}
					}
				}
				return st
			})
			if !died {
				t.Errorf("no write %s", write)
			}
		}
	}
	for _, outcome := range []storetest.Outcome{storetest.Fails, storetest.FailsButHappened} {
		for step := 0; ; step += 7 {
			n, reached := 0, false
			try("fault", step, func(st store.Store, _ *catalog.Options) store.Store {
				return &storetest.Fault{Store: st, Decide: func(op, key string) storetest.Outcome {
					if n++; n == step+1 {
						reached = true
						return outcome
					}
					return storetest.Works
				}}
			})
			if !reached || t.Failed() {
				break
			}
		}
	}
}

// Collectors at once, of several processes, and publishers beside them.
func TestCollectAtOnce(t *testing.T) {
	st, clock := newStore(t), new(later)
	c := litter(t, st, clock, catalog.Options{})
	for range 3 {
		clock.wait(25 * time.Hour)
		var all sync.WaitGroup
		for range 3 {
			other := openWith(t, st, catalog.Options{Fanout: 2, Now: clock.now})
			all.Go(func() {
				if _, err := other.Collect(t.Context(), catalog.CollectOptions{Claims: claims("live")}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	for range 2 { // what the others lost their races with
		clock.wait(25 * time.Hour)
		gc(t, c, catalog.CollectOptions{})
	}
	wantCollected(t, st, c)
}
