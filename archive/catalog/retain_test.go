package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/store/storetest"
)

const tenDays = 10 * 24 * time.Hour

// allButOdd lets go of what is old, but for batches whose number is odd.
func allButOdd(_ context.Context, lines []catalog.SegmentEntry, n int) ([]bool, error) {
	expendable := make([]bool, n)
	for i := range expendable {
		expendable[i] = lines[i].Batch[len(lines[i].Batch)-1]%2 == 0
	}
	return expendable, nil
}

// aged is a catalog of six batches, of which four are old, each of three hosts;
// the first two batches share a pack of theirs with another host.
func aged(t testing.TB, st store.Store, clock *later, opt catalog.Options) *catalog.Catalog {
	t.Helper()
	opt.Fanout, opt.Now = 3, clock.now
	c := openWith(t, st, opt)
	for i := range 6 {
		id := fmt.Sprintf("b%d", i)
		lines := []catalog.SegmentEntry{putSegment(t, st, "a.jp", id), putSegment(t, st, "down.jp", id)}
		if i < 2 {
			text := segmentText("packed.jp", id) + segmentText("few.jp", id)
			if err := st.Put(t.Context(), "packs/"+id, strings.NewReader(text), int64(len(text))); err != nil {
				t.Fatal(err)
			}
			one, two := segment("packed.jp", id), segment("few.jp", id)
			one.Object, two.Object, two.Offset = "packs/"+id, "packs/"+id, one.Length
			lines = append(lines, one, two)
		} else {
			lines = append(lines, putSegment(t, st, "packed.jp", id))
		}
		publish(t, c, publication(id, lines...))
		if err := c.Merge(t.Context()); err != nil {
			t.Fatal(err)
		}
		if i == 3 {
			clock.wait(tenDays)
		}
		clock.wait(time.Hour)
	}
	clock.wait(24 * time.Hour) // see TestClockAheadLetsNothingExpire
	if _, err := c.Remove(t.Context(), catalog.Tombstone{Host: "down.jp", Edition: editionOf(t, c, "b1")}); err != nil {
		t.Fatal(err)
	}
	return c
}

func retaining() catalog.CollectOptions {
	return catalog.CollectOptions{Claims: claims(), Retention: catalog.Retention{Keep: tenDays, Expendable: allButOdd}}
}

// wantAged checks what is left of aged when what is old and even has gone.
func wantAged(t testing.TB, st store.Store, c *catalog.Catalog) {
	t.Helper()
	s := pin(t, c)
	wantHost(t, s, "a.jp", "b1 b3 b4 b5")
	wantHost(t, s, "packed.jp", "b1 b3 b4 b5")
	wantHost(t, s, "few.jp", "b1")
	wantHost(t, s, "down.jp", "b0 b2 b3 b4 b5")
	for prefix, want := range map[string][]string{
		"packs/": {"packs/b1"}, "segments/a.jp/": {"segments/a.jp/b1", "segments/a.jp/b3", "segments/a.jp/b4", "segments/a.jp/b5"},
		"segments/down.jp/": {"segments/down.jp/b0", "segments/down.jp/b2", "segments/down.jp/b3", "segments/down.jp/b4", "segments/down.jp/b5"},
		"gc/":               nil,
	} {
		if got := keys(t, st, prefix); !slices.Equal(got, want) {
			t.Errorf("%s left: %q, want %q", prefix, got, want)
		}
	}
	if report := wantClean(t, st); report.Orphans != 0 {
		t.Errorf("orphans: %q", report.OrphanKeys)
	}
}

func TestRetention(t *testing.T) {
	st, clock := newStore(t), new(later)
	c := aged(t, st, clock, catalog.Options{BlockSize: 300})
	held := pin(t, c)
	objects := keys(t, st, "")
	dry := retaining()
	dry.DryRun = true
	if r := gc(t, c, dry); r.Retained.Expired != 5 || !slices.Equal(keys(t, st, ""), objects) {
		t.Errorf("dry run: %+v", r.Retained)
	}
	r := gc(t, c, retaining())
	if r.Retained.Expired != 5 || r.Retained.Hosts != 3 || r.Condemned.Objects < 4 {
		t.Errorf("%+v of %+v", r, r.Retained)
	}
	// Who pinned before reads on; who pins now does not find them, in whatever way.
	wantHost(t, held, "a.jp", "b0 b1 b2 b3 b4 b5")
	s := pin(t, c)
	wantHost(t, s, "a.jp", "b1 b3 b4 b5")
	if got := batches(collect(t, s.Edition(t.Context(), editionOf(t, c, "b0")))); got != "b0" { // down.jp's
		t.Errorf("the edition of b0 has %q", got)
	}
	hosts, err := s.Hosts(t.Context(), "jp,", "", 0)
	if err != nil || len(hosts) != 4 || hosts[0].Segments != 4 || hosts[0].Editions != 4 || hosts[1].Segments != 5 {
		t.Errorf("hosts: %+v, %v", hosts, err)
	}
	if got, err := s.Children(t.Context(), "jp", "", 0); err != nil || childNames(got) != "a down few packed" {
		t.Errorf("directory: %s, %v", childNames(got), err)
	}
	if err := c.Merge(t.Context()); err != nil {
		t.Fatal(err)
	}
	held.Release()
	for range 3 {
		clock.wait(25 * time.Hour)
		gc(t, c, retaining())
	}
	wantAged(t, st, open(t, st))
}

// The change feed tells what has expired, and with it a follower has what readers have.
func TestRetentionInChanges(t *testing.T) {
	for limit := 1; limit < 6; limit++ {
		st, clock := newStore(t), new(later)
		c := aged(t, st, clock, catalog.Options{BlockSize: 300})
		follow := func(since int64, has map[int64]string) int64 {
			s := pin(t, c)
			for {
				changes, last, err := s.Changes(t.Context(), since, "", limit)
				if err != nil {
					t.Fatal(err)
				}
				for _, at := range changes {
					if at.Seq <= since || at.Seq > last {
						t.Errorf("event %d of those from %d to %d", at.Seq, since, last)
					}
					since = at.Seq
					if at.Entry != nil {
						has[at.Seq] = at.Entry.Host + " " + at.Entry.Batch
					} else if at.Expiry != nil {
						delete(has, at.Expiry.Entry)
					}
				}
				if since = last; len(changes) == 0 {
					return last
				}
			}
		}
		was, anew := make(map[int64]string), make(map[int64]string)
		since := follow(0, was)
		gc(t, c, retaining())
		follow(since, was)
		follow(0, anew)
		want := make(map[int64]string)
		for _, host := range []string{"a.jp", "down.jp", "few.jp", "packed.jp"} {
			lines, err := pin(t, c).Host(t.Context(), host)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range lines {
				want[l.Seq] = l.Host + " " + l.Batch
			}
		}
		if !maps.Equal(was, want) || !maps.Equal(anew, want) {
			t.Errorf("limit %d: one who followed has %v, a new one %v, readers %v", limit, was, anew, want)
		}
		changes, _, err := pin(t, c).Changes(t.Context(), 0, "jp,packed", 100)
		expired := 0
		for _, at := range changes {
			if at.Expiry != nil {
				expired++
				if at.Expiry.Host != "packed.jp" {
					t.Errorf("of another host: %+v", at.Expiry)
				}
			}
		}
		if err != nil || expired != 2 {
			t.Errorf("%d of packed.jp expired, %v", expired, err)
		}
	}
}

// Wherever it dies or fails, and however many do it at once, it is done in the end, once.
func TestRetentionFaults(t *testing.T) {
	passes := func(c *catalog.Catalog, clock *later) error {
		for range 4 {
			if _, err := c.Collect(t.Context(), retaining()); err != nil {
				return err
			}
			clock.wait(25 * time.Hour)
		}
		return nil
	}
	for _, when := range []string{"before", "after"} {
		for _, write := range []string{"expire-run", "expire-version", "condemn", "collect", "collected"} {
			st, clock := newStore(t), new(later)
			aged(t, st, clock, catalog.Options{})
			died := false
			opt := catalog.Options{Fanout: 3, Now: clock.now, Boundary: func(w, at string) {
				if w == write && at == when {
					died = true
					panic("killed")
				}
			}}
			func() {
				defer func() {
					if r := recover(); r != nil && r != "killed" {
						panic(r)
					}
				}()
				_ = passes(openWith(t, st, opt), clock)
			}()
			if !died {
				t.Errorf("no write %s", write)
			}
			wantClean(t, st)
			c := openWith(t, st, catalog.Options{Fanout: 3, Now: clock.now})
			if err := passes(c, clock); err != nil {
				t.Fatalf("killed %s %s: %v", when, write, err)
			}
			wantAged(t, st, c)
		}
	}
	for _, outcome := range []storetest.Outcome{storetest.Fails, storetest.FailsButHappened} {
		for step := 0; ; step += 5 {
			st, clock := newStore(t), new(later)
			aged(t, st, clock, catalog.Options{})
			n := 0
			faulty := &storetest.Fault{Store: st, Decide: func(string, string) storetest.Outcome {
				if n++; n == step+1 {
					return outcome
				}
				return storetest.Works
			}}
			_ = passes(openWith(t, faulty, catalog.Options{Fanout: 3, Now: clock.now}), clock)
			c := openWith(t, st, catalog.Options{Fanout: 3, Now: clock.now})
			if err := passes(c, clock); err != nil {
				t.Fatalf("fault %d: %v", step, err)
			}
			wantAged(t, st, c)
			if n <= step || t.Failed() {
				break
			}
		}
	}
	st, clock := newStore(t), new(later)
	c := aged(t, st, clock, catalog.Options{})
	var all sync.WaitGroup
	for range 3 {
		other := openWith(t, st, catalog.Options{Fanout: 3, Now: clock.now})
		all.Go(func() {
			if _, err := other.Collect(t.Context(), retaining()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	clock.wait(25 * time.Hour)
	if err := passes(c, clock); err != nil {
		t.Fatal(err)
	}
	wantAged(t, st, c)
}

// A host whose needs cannot be told loses nothing, and the others do all the same.
func TestRetentionOfWhatCannotBeRead(t *testing.T) {
	st, clock := newStore(t), new(later)
	c := aged(t, st, clock, catalog.Options{})
	opt := retaining()
	opt.Retention.Expendable = func(ctx context.Context, lines []catalog.SegmentEntry, n int) ([]bool, error) {
		if lines[0].Host == "a.jp" {
			return nil, errors.New("disk is ill")
		}
		return allButOdd(ctx, lines, n)
	}
	r := gc(t, c, opt)
	if len(r.Retained.Failed) != 1 || !strings.Contains(r.Retained.Failed[0], "a.jp") {
		t.Errorf("%+v", r.Retained)
	}
	wantHost(t, pin(t, c), "a.jp", "b0 b1 b2 b3 b4 b5")
	wantHost(t, pin(t, c), "packed.jp", "b1 b3 b4 b5")
}

// A host is looked at again when another of its lines has become old, and not before.
func TestRetentionSince(t *testing.T) {
	st, clock := newStore(t), new(later)
	c := aged(t, st, clock, catalog.Options{})
	opt := retaining()
	none := func(_ context.Context, _ []catalog.SegmentEntry, n int) ([]bool, error) { return make([]bool, n), nil }
	opt.Retention.Expendable = none
	looked := func() int64 {
		r := gc(t, c, opt)
		opt.Retention.Since = r.Retained.Before
		return r.Retained.Hosts
	}
	if n := looked(); n != 3 {
		t.Errorf("looked at %d hosts", n)
	}
	clock.wait(time.Hour)
	if n := looked(); n != 0 {
		t.Errorf("an hour later, looked at %d hosts", n)
	}
	clock.wait(tenDays)
	publish(t, c, publication("b6", putSegment(t, st, "new.jp", "b6")))
	clock.wait(24 * time.Hour)
	if n := looked(); n != 2 { // few.jp has nothing new
		t.Errorf("when more had become old, looked at %d hosts", n)
	}
}

// A clock that is a year ahead lets nothing expire, neither at once nor with the first editions
// that are published by it, and afterwards what is old expires as ever.
func TestClockAheadLetsNothingExpire(t *testing.T) {
	const day = 24 * time.Hour
	st, clock := newStore(t), new(later)
	c := openWith(t, st, catalog.Options{Now: clock.now})
	put := func(n int) {
		t.Helper()
		id := fmt.Sprintf("b%d", 2*n)
		publish(t, c, publication(id, putSegment(t, st, "a.jp", id)))
	}
	want := func(when string, expired int64) {
		t.Helper()
		if r := gc(t, c, retaining()); r.Retained.Expired != expired {
			t.Errorf("%s %d entries expire, want %d", when, r.Retained.Expired, expired)
		}
	}
	for n := range 5 {
		put(n)
		clock.wait(day)
	}
	want("within the time for which they are kept", 0)
	clock.wait(365 * day)
	want("by a clock that is ahead", 0)
	put(5)
	want("after a publication", 0)
	clock.wait(-365 * day)
	want("when the clock is right again", 0)
	for n := 6; n < 9; n++ { // are published at the same time as the former: the catalog's never goes back
		put(n)
		clock.wait(day)
	}
	want("while the catalog's time stands still", 0)
	clock.wait(365 * day)
	for n := 9; n < 14; n++ {
		put(n)
		clock.wait(day)
	}
	want("when its time goes on", 5)
}
