package catalog_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sheaf/archive/catalog"
	"sheaf/internal/testkit"
)

// follow reads the whole feed in pages.
func follow(t *testing.T, s *catalog.Snapshot, prefix string, page int) (all []string) {
	t.Helper()
	since := int64(0)
	for {
		changes, last, err := s.Changes(t.Context(), since, prefix, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			if c.Seq <= since || c.Seq > last || len(changes) > page {
				t.Fatalf("page of %d from %d to %d holds %d", len(changes), since, last, c.Seq)
			}
			since = c.Seq
			if c.Entry != nil {
				all = append(all, fmt.Sprintf("%d %s %s", c.Seq, c.Entry.Batch, c.Entry.Host))
			} else {
				all = append(all, fmt.Sprintf("%d down%s %s", c.Seq, c.Tombstone.Act, c.Tombstone.Host))
			}
		}
		if last == since && len(changes) == 0 {
			return all
		}
		since = last
	}
}

func TestChanges(t *testing.T) {
	st := newStore(t)
	c := openWith(t, st, catalog.Options{Fanout: 2, BlockSize: 600})
	var want []string
	seq := 0
	for i := range 5 {
		id := fmt.Sprintf("b%d", i)
		var lines []catalog.SegmentEntry
		for h := range 20 {
			lines = append(lines, putSegment(t, st, fmt.Sprintf("h%02d.%s.jp", h, []string{"ac", "co"}[h/10]), id))
		}
		publish(t, c, publication(id, lines...))
		for _, l := range lines {
			seq++
			if l.Host != "h03.ac.jp" {
				want = append(want, fmt.Sprintf("%d %s %s", seq, id, l.Host))
			}
		}
		if err := c.Merge(t.Context()); err != nil {
			t.Fatal(err)
		}
		stones := []catalog.Tombstone{{Host: "h15.co.jp"}, {Host: "h03.ac.jp"}}
		switch i {
		case 1:
			if _, err := c.Remove(t.Context(), stones...); err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprintf("%d down h15.co.jp", seq+1), fmt.Sprintf("%d down h03.ac.jp", seq+2))
			seq += 2
		case 3:
			if _, err := c.Restore(t.Context(), stones[0]); err != nil {
				t.Fatal(err)
			}
			seq++
			want = append(want, fmt.Sprintf("%d downlift h15.co.jp", seq))
		}
	}
	s := pin(t, open(t, st))
	for _, page := range []int{1, 2, 7, 1000} {
		if got := follow(t, s, "", page); !slices.Equal(got, want) {
			t.Errorf("pages of %d: %q\nwant %q", page, got, want)
		}
		academic := slices.DeleteFunc(slices.Clone(want), func(w string) bool { return !strings.HasSuffix(w, ".ac.jp") })
		if got := follow(t, s, "jp,ac,", page); !slices.Equal(got, academic) {
			t.Errorf("jp,ac in pages of %d: %q\nwant %q", page, got, academic)
		}
	}
	if _, _, err := s.Changes(t.Context(), int64(seq), "", 1); err != nil {
		t.Errorf("at the end: %v", err)
	}
	if _, _, err := s.Changes(t.Context(), int64(seq+1), "", 1); !errors.Is(err, catalog.ErrFuture) {
		t.Errorf("behind the end: %v", err)
	}
	before := catalog.Checkpoint{}
	for n := range int64(seq) + 1 {
		m, err := s.Checkpoint(t.Context(), n)
		if err != nil || m.Version < before.Version || (m.Digest == before.Digest) != (m.Version == before.Version) || m.At.Before(before.At) {
			t.Fatalf("mark of %d: %+v, %v; before %+v", n, m, err, before)
		}
		before = m
	}
	if _, err := s.Checkpoint(t.Context(), int64(seq+1)); s.Last() != int64(seq) || !errors.Is(err, catalog.ErrFuture) {
		t.Errorf("the last is %d of %d, the mark behind it %v", s.Last(), seq, err)
	}
	if none, last, err := pin(t, open(t, newStore(t))).Changes(t.Context(), 0, "", 1); err != nil || len(none) != 0 || last != 0 {
		t.Errorf("of nothing: %v, %d, %v", none, last, err)
	}
}

// Who follows the changes reads a few versions of the log, however long it is, and misses none.
func TestFollowersReadFewVersions(t *testing.T) {
	st := newStore(t)
	read := 0
	c := open(t, countReads(st, &read))
	for n := range 40 {
		batch := fmt.Sprintf("b%d", n)
		publish(t, c, publication(batch, putSegment(t, st, "a.jp", batch)))
	}
	s := pin(t, c)
	all, last, err := s.Changes(t.Context(), 0, "", 1000)
	testkit.Must(t, err)
	for since := range last + 1 {
		read = 0
		later, _, err := s.Changes(t.Context(), since, "", 1000)
		testkit.Must(t, err)
		if len(later) != len(all)-int(since) {
			t.Errorf("after %d of %d: %d changes", since, last, len(later))
		}
		if behind := int(last - since); behind <= 1 && read > 4 {
			t.Errorf("%d behind: %d versions of the log are read", behind, read)
		}
	}
}
