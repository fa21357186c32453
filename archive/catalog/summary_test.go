package catalog_test

import (
	"fmt"
	"reflect"
	"testing"

	"sheaf/archive/catalog"
	"sheaf/internal/testkit"
)

// lists is what a snapshot lists of hosts, in every way, with what it says of the lines themselves.
func lists(t *testing.T, s *catalog.Snapshot) (text string) {
	t.Helper()
	hosts, err := s.Hosts(t.Context(), "", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hosts {
		var want catalog.HostInfo
		lines, err := s.Host(t.Context(), h.Host)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			if l.Edition != want.Latest {
				want.Editions++
			}
			if want.First.IsZero() || l.First.Before(want.First) {
				want.First = l.First
			}
			if l.Last.After(want.Last) {
				want.Last = l.Last
			}
			want.Host, want.SURT, want.Latest, want.Published = l.Host, l.SURT, l.Edition, l.Published
			want.Segments, want.Records, want.Bytes = want.Segments+1, want.Records+l.Records, want.Bytes+l.Length
		}
		if !reflect.DeepEqual(h, want) {
			t.Errorf("version %d: hosts say %+v, their lines %+v", s.Version(), h, want)
		}
		text += fmt.Sprintf("%s %d %s; ", h.Host, h.Segments, h.Published.Format("150405.000"))
	}
	for _, dir := range []string{"", "jp", "jp/a", "jp/down"} {
		children, err := s.Children(t.Context(), dir, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("%q ", dir)
		for _, c := range children {
			text += fmt.Sprintf("%s %t %t", c.Name, c.Leaf, c.Inner)
			if c.Leaf {
				text += c.Modified.Format(" 150405.000")
			}
			text += ", "
		}
	}
	return text
}

// sizes returns what every edition brought of each host, in bytes.
func sizes(t *testing.T, s *catalog.Snapshot) (text string) {
	t.Helper()
	editions, err := s.Editions(t.Context())
	testkit.Must(t, err)
	for _, ed := range editions {
		for h, err := range s.EditionSizes(t.Context(), ed.Name, "") {
			testkit.Must(t, err)
			text += fmt.Sprintf("%s %s %d; ", ed.Name, h.Key, h.Bytes)
		}
	}
	return text
}

// sizesOfEntries is sizes by the entries themselves.
func sizesOfEntries(t *testing.T, s *catalog.Snapshot) (text string) {
	t.Helper()
	editions, err := s.Editions(t.Context())
	testkit.Must(t, err)
	for _, ed := range editions {
		var last catalog.HostSize
		put := func() {
			if last.Key != "" {
				text += fmt.Sprintf("%s %s %d; ", ed.Name, last.Key, last.Bytes)
			}
		}
		for l, err := range s.Edition(t.Context(), ed.Name) {
			testkit.Must(t, err)
			if l.SURT != last.Key {
				put()
				last = catalog.HostSize{Key: l.SURT}
			}
			last.Bytes += l.Length
		}
		put()
	}
	return text
}

// Hosts are listed by summaries as they are by their lines: from one run and from
// many, before and after merges, beside take-downs, and page by page.
func TestSummaries(t *testing.T) {
	st, clock := newStore(t), new(later)
	c := openWith(t, st, catalog.Options{Fanout: 3, BlockSize: 300, SortMemory: 700, Now: clock.now})
	for i := range 11 {
		id := fmt.Sprintf("b%d", i)
		var lines []catalog.SegmentEntry
		for h := range 5 {
			if i%(h+1) != 0 {
				continue
			}
			l := putSegment(t, st, fmt.Sprintf("h%d.jp", h), id)
			l.Records, l.First, l.Last = int64(i*h), l.First.AddDate(0, 0, i%4), l.Last.AddDate(0, 0, 9-i)
			lines = append(lines, l)
			if h == 1 { // twice in one edition
				l.Object, l.Length = l.Object+"-2", l.Length-1
				lines = append(lines, l)
			}
		}
		publish(t, c, publication(id, lines...))
		before := lists(t, pin(t, c))
		if err := c.Merge(t.Context()); err != nil {
			t.Fatal(err)
		}
		if after := lists(t, pin(t, c)); after != before {
			t.Errorf("before merging %s, after it %s", before, after)
		}
	}
	before := sizes(t, pin(t, c))
	if want := sizesOfEntries(t, pin(t, c)); before != want {
		t.Errorf("editions brought %s, by their entries %s", before, want)
	}
	if _, err := c.Remove(t.Context(), catalog.Tombstone{Host: "h1.jp", Edition: editionOf(t, c, "b10")}, catalog.Tombstone{Host: "h2.jp"}); err != nil {
		t.Fatal(err)
	}
	lists(t, pin(t, c))
	if after := sizes(t, pin(t, c)); after != before {
		t.Errorf("editions brought %s, after a take-down %s", before, after)
	}
	s := pin(t, c)
	after, paged := "", ""
	for {
		hosts, err := s.Hosts(t.Context(), "jp,", after, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(hosts) == 0 {
			break
		}
		after = hosts[0].SURT
		paged += hosts[0].Host + " "
	}
	if paged != "h0.jp h1.jp h3.jp h4.jp " {
		t.Errorf("page by page: %s", paged)
	}
}
