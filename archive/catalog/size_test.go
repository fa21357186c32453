package catalog_test

import (
	"fmt"
	"iter"
	"testing"

	"sheaf/archive/catalog"
	"sheaf/internal/testkit"
)

// many returns a batch's entries for n hosts in a scrambled order, without their objects.
func many(n int, batch string) iter.Seq2[catalog.SegmentEntry, error] {
	return func(yield func(catalog.SegmentEntry, error) bool) {
		for i := range n {
			if !yield(segment(manyHost(i*7919%n), batch), nil) {
				return
			}
		}
	}
}

func manyHost(i int) string {
	return fmt.Sprintf("www.site%06d.%s.jp", i, []string{"co", "ac", "or"}[i%3])
}

func publishMany(tb testing.TB, c *catalog.Catalog, hosts, editions int) {
	tb.Helper()
	for e := range editions {
		id := fmt.Sprintf("day%d", e)
		p := publication(id)
		p.Entries = many(hosts, id)
		publish(tb, c, p)
		if err := c.Merge(tb.Context()); err != nil {
			tb.Fatal(err)
		}
	}
}

// Ten thousand hosts over several editions, sorted with little memory so that
// every publication spills, and merged meanwhile.
func TestManyHosts(t *testing.T) {
	testkit.Slow(t)
	st := newStore(t)
	const hosts, editions = 10000, 3
	publishMany(t, openWith(t, st, catalog.Options{Fanout: 2, SortMemory: 1 << 20}), hosts, editions)
	s := pin(t, open(t, st))
	for _, i := range []int{0, 1, hosts / 2, hosts - 1} {
		wantHost(t, s, manyHost(i), "day0 day1 day2")
	}
	n, after := 0, ""
	for {
		page, err := s.Children(t.Context(), "jp/co", after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		n += len(page)
		after = page[len(page)-1].Name
	}
	if n != (hosts+2)/3 {
		t.Errorf("jp/co has %d entries, want %d", n, (hosts+2)/3)
	}
	seq := int64(hosts)
	for l, err := range s.Edition(t.Context(), "20261121-2") {
		if err != nil {
			t.Fatal(err)
		}
		if seq++; l.Seq != seq {
			t.Fatalf("%s has sequence number %d, want %d", l.Host, l.Seq, seq)
		}
	}
	if seq != 2*hosts {
		t.Errorf("edition 2 ends at %d, want %d", seq, 2*hosts)
	}
}
