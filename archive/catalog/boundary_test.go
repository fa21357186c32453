package catalog_test

import (
	"slices"
	"testing"
	"time"

	"sheaf/archive/catalog"
)

// What a fault test is told to die in are the writes that happen, and all of them.
func TestBoundaries(t *testing.T) {
	st, clock := newStore(t), new(later)
	var seen []string
	c := openWith(t, st, catalog.Options{Fanout: 2, Now: clock.now, Boundary: func(write, when string) {
		if when == "before" && !slices.Contains(seen, write) {
			seen = append(seen, write)
		}
	}})
	for _, id := range []string{"b1", "b2"} {
		publish(t, c, publication(id, putSegment(t, st, "a.jp", id)))
	}
	if err := c.Merge(t.Context()); err != nil {
		t.Fatal(err)
	}
	stone := catalog.Tombstone{Host: "a.jp"}
	if _, err := c.Remove(t.Context(), stone); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Restore(t.Context(), stone); err != nil {
		t.Fatal(err)
	}
	if err := c.Restrict(t.Context(), catalog.Restriction{Kind: "rule", Name: "1", Value: []byte(`"x"`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Remove(t.Context(), stone); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		clock.wait(25 * time.Hour)
		gc(t, c, catalog.CollectOptions{})
	}
	publish(t, c, publication("b4", putSegment(t, st, "c.jp", "b4")))
	publish(t, c, publication("b6", putSegment(t, st, "c.jp", "b6")))
	clock.wait(2 * tenDays)
	publish(t, c, publication("b8", putSegment(t, st, "d.jp", "b8")))
	clock.wait(24 * time.Hour) // see Retention.Keep
	gc(t, c, retaining())
	if want := catalog.Boundaries(); !slices.Equal(seen, want) {
		t.Errorf("writes %q, Boundaries says %q", seen, want)
	}
}
