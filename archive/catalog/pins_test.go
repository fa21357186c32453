package catalog_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/store/storetest"
)

// Readers hold old versions while others publish, merge and collect; what they
// read stays that of their version.
func TestReadersAmongCollections(t *testing.T) {
	st, clock := newStore(t), new(later)
	c := openWith(t, st, catalog.Options{Fanout: 2, BlockSize: 300, CacheSize: 1, Now: clock.now})
	var readers sync.WaitGroup
	stop := make(chan struct{})
	want := ""
	for i := range 12 {
		id := fmt.Sprintf("b%02d", i)
		publish(t, c, publication(id, putSegment(t, st, "a.jp", id), putSegment(t, st, fmt.Sprintf("h%d.jp", i), id)))
		want = strings.TrimSpace(want + " " + id)
		s, hosts := pin(t, c), i+2
		want := want
		readers.Go(func() {
			for n := 0; ; n++ {
				lines, err := s.Host(t.Context(), "a.jp")
				if err != nil || batches(lines) != want {
					t.Errorf("version %d: %q, %v; want %q", s.Version(), batches(lines), err, want)
					return
				}
				children, err := s.Children(t.Context(), "jp", "", 0)
				if err != nil || len(children) != hosts {
					t.Errorf("version %d: %d hosts, %v; want %d", s.Version(), len(children), err, hosts)
					return
				}
				select {
				case <-stop:
					if n > 0 {
						return
					}
				default:
				}
			}
		})
		if err := c.Merge(t.Context()); err != nil {
			t.Fatal(err)
		}
		clock.wait(25 * time.Hour)
		gc(t, c, catalog.CollectOptions{})
	}
	close(stop)
	readers.Wait()
	held := len(keys(t, st, "runs/"))
	// With no reader left all that is not an edition's own, or live, goes.
	last := openWith(t, st, catalog.Options{Now: clock.now})
	for range 2 {
		clock.wait(25 * time.Hour)
		gc(t, last, catalog.CollectOptions{})
	}
	if left := len(keys(t, st, "runs/")); left >= held || left < 12 {
		t.Errorf("%d runs while readers held them, %d afterwards; 12 editions", held, left)
	}
	wantHost(t, pin(t, last), "a.jp", want)
	wantClean(t, st)
}

// A snapshot that was held for too long says so, in place of reading what may be gone.
func TestPinExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(t)
		c := open(t, st)
		publish(t, c, publication("b1", putSegment(t, st, "a.jp", "b1")))
		s := pin(t, c)
		time.Sleep(12*time.Hour - time.Second)
		wantHost(t, s, "a.jp", "b1")
		time.Sleep(2 * time.Second)
		_, err := s.Host(t.Context(), "a.jp")
		_, err2 := s.Children(t.Context(), "jp", "", 0)
		_, err3 := s.Editions(t.Context())
		for _, err := range []error{err, err2, err3} {
			if !errors.Is(err, catalog.ErrExpired) {
				t.Errorf("after half a day: %v", err)
			}
		}
		wantHost(t, pin(t, c), "a.jp", "b1")
	})
}

func works(string, string) storetest.Outcome { return storetest.Works }

// countReads returns a store that counts in n how often the log is read.
func countReads(st store.Store, n *int) store.Store {
	return &storetest.Fault{Store: st, Decide: works, DecideRead: func(_, key string) storetest.Outcome {
		if strings.HasPrefix(key, "catalog/") {
			*n++
		}
		return storetest.Works
	}}
}

// Within a second a reader need not ask the log, and sees all the same what its own Catalog did.
func TestPinWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(t)
		asked := 0
		c, other := open(t, countReads(st, &asked)), open(t, st)
		want := func(batches string) {
			t.Helper()
			s, err := c.PinWithin(t.Context(), time.Second)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Release()
			wantHost(t, s, "a.jp", batches)
		}
		publish(t, other, publication("b1", putSegment(t, st, "a.jp", "b1")))
		before := asked
		want("")
		if asked != before {
			t.Errorf("asked the log %d times within the second", asked-before)
		}
		time.Sleep(time.Second)
		want("b1")
		if _, err := c.Remove(t.Context(), catalog.Tombstone{Host: "a.jp"}); err != nil {
			t.Fatal(err)
		}
		want("")
		if _, err := other.Pin(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Restore(t.Context(), catalog.Tombstone{Host: "a.jp"}); err != nil {
			t.Fatal(err)
		}
		want("")
		if s, err := c.Pin(t.Context()); err != nil {
			t.Fatal(err)
		} else {
			wantHost(t, s, "a.jp", "b1")
		}
		time.Sleep(12*time.Hour - time.Second)
		want("b1")
	})
}
