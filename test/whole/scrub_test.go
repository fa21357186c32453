package whole

import (
	"bytes"
	"context"
	"database/sql"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/store"
	"sheaf/archive/upkeep"
	"sheaf/internal/testkit"
	"sheaf/serve/servetest"
)

// newScrubber returns a Scrubber of a site to which everything is due at each turn.
func newScrubber(s *servetest.Site, copied store.Store) *upkeep.Scrubber {
	return upkeep.NewScrubber(upkeep.ScrubberOptions{
		Catalog: s.Catalog, Store: s.Store, DB: s.DB, Every: 1, Rate: 1 << 40, Log: slog.New(slog.DiscardHandler),
		Copy: func(context.Context) (store.Store, error) { return copied, nil },
	})
}

// round takes turns until the scrubber has read everything once.
func round(t *testing.T, s *upkeep.Scrubber, d *sql.DB) upkeep.Scrub {
	t.Helper()
	_, err := d.Exec(`DELETE FROM scrub`) // the check of the catalog is due, too
	testkit.Must(t, err)
	testkit.Must(t, s.Turn(t.Context()))
	state, err := upkeep.ReadScrub(t.Context(), d)
	testkit.Must(t, err)
	if state.Place != state.Last || state.Bytes == 0 || state.Copied.IsZero() || state.Checked.IsZero() {
		t.Fatalf("a round ended as %+v", state)
	}
	return state
}

// Segments that are flipped, cut off or deleted while others read are found and healed, in the
// store as in its copy. Nobody reads a wrong byte of what the scrub has passed.
func TestScrubHeals(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s, copied, dir := newCopied(t, "")
	scrubber := newScrubber(s, copied)
	want := contents(t, s.Dir)
	var keys []string
	for key := range want {
		if strings.HasPrefix(key, "segments/") || strings.HasPrefix(key, "packs/") || strings.HasSuffix(key, ".others.warc.gz") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	rounds := testkit.Size(4, 250)
	ctx, stop := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	reading.Go(func() {
		for ctx.Err() == nil {
			for _, key := range keys {
				if r, err := s.Store.Open(ctx, key, 0, -1); err == nil {
					r.Close()
				}
			}
		}
	})
	for n := range rounds {
		random := rand.New(rand.NewPCG(uint64(n), 2))
		harmed := make(map[string]string) // by key, the directory
		for range 1 + random.IntN(6) {
			harmed[keys[random.IntN(len(keys))]] = []string{s.Dir, dir}[random.IntN(2)]
		}
		for _, key := range slices.Sorted(maps.Keys(harmed)) {
			harm(t, random, harmed[key], key)
		}
		state := round(t, scrubber, s.DB)
		for _, at := range []string{s.Dir, dir} {
			got := contents(t, at)
			for _, key := range keys {
				if !bytes.Equal(got[key], want[key]) {
					t.Errorf("round %d: %s in %s is not as it was: %+v", n, key, at, state)
				}
			}
		}
		if len(state.Lost) > 0 || state.Problems > 0 || state.Healed > int64(len(harmed)) {
			t.Errorf("round %d, harmed %v: %+v", n, harmed, state)
		}
		if t.Failed() {
			break
		}
	}
	stop()
	reading.Wait()
}

// What is damaged in the store and in the copy is told of until it is right again. A store that
// cannot be read now is not damaged.
func TestScrubTellsOfLosses(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s, copied, dir := newCopied(t, "")
	scrubber := newScrubber(s, copied)
	key := ""
	for name := range contents(t, s.Dir) {
		if strings.HasPrefix(name, "segments/") && name > key {
			key = name
		}
	}
	right := contents(t, s.Dir)[key]
	random := rand.New(rand.NewPCG(7, 7))
	harm(t, random, s.Dir, key)
	harm(t, random, dir, key)
	state := round(t, scrubber, s.DB)
	if len(state.Lost) != 1 || !strings.HasSuffix(state.Lost[0], " in "+key) || state.Damaged == 0 || state.Healed > 0 {
		t.Errorf("damaged in both: %+v", state)
	}
	_ = s.Store.Delete(t.Context(), key)
	testkit.Must(t, s.Store.Put(t.Context(), key, bytes.NewReader(right), int64(len(right))))
	if state = round(t, scrubber, s.DB); len(state.Lost) > 0 || state.Problems > 0 {
		t.Errorf("after the repair: %+v", state)
	}
	if !bytes.Equal(contents(t, dir)[key], right) {
		t.Error("the copy is not right")
	}

	s.Publish("20261201", map[string][]*archive.Record{"new.example.jp": {servetest.Page("http://new.example.jp/", "new", time.Now())}})
	if state = round(t, scrubber, s.DB); len(contents(t, dir)) < len(contents(t, s.Dir)) {
		t.Errorf("what is published later is not in the copy: %+v", state)
	}
}

// Before the first publication there is nothing to copy, which is no error; a store that has lost
// its catalog, while the copy has one, is.
func TestScrubBeforeThePublication(t *testing.T) {
	s := servetest.New(t, nil)
	copied, err := store.OpenFS(t.TempDir())
	testkit.Must(t, err)
	defer copied.Close()
	scrubber := newScrubber(s, copied)
	testkit.Must(t, scrubber.Turn(t.Context()))
	state, err := upkeep.ReadScrub(t.Context(), s.DB)
	testkit.Must(t, err)
	if state.Copied.IsZero() {
		t.Error("the copy counts as behind though there is nothing to copy")
	}
	testkit.Must(t, copied.Put(t.Context(), "catalog/00000001", strings.NewReader("{}"), 2))
	if err := scrubber.Turn(t.Context()); err == nil {
		t.Error("a store without the catalog that its copy has is called copied")
	}
}
