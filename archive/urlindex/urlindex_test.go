package urlindex_test

import (
	"fmt"
	"testing"
	"time"

	"sheaf/archive/urlindex"
)

// Published records are found by URL, after one build and after many merges, as in the segments'
// own indexes.
func TestFinds(t *testing.T) {
	s := newSite(t)
	if v := s.view(); v.Through() != 0 || v.Covers(1) {
		t.Errorf("an empty index covers %d", v.Through())
	}
	for day := range 14 {
		at := noon.Add(time.Duration(day) * 24 * time.Hour)
		s.publish(page("http://www.a.jp/", fmt.Sprint("a", day), at), page("http://a.jp/x?b=2&a=1", "x", at.Add(500)),
			again("http://www.a.jp/\"quoted\"", "q", at, at.Add(time.Hour)), page("https://b.jp:8443/ü"[:18]+"%C3%BC", "b", at))
		s.update()
		v := s.view()
		same(t, "all", s.indexed(v, urlindex.Range{}), s.visible())
		if v.Through() != int64(3*(day+1)) {
			t.Errorf("day %d: through %d", day, v.Through())
		}
	}
	v := s.view()
	if got := s.indexed(v, urlindex.Exact("jp,a)/")); len(got) != 14 {
		t.Errorf("%d records of the page, want 14", len(got))
	}
	if got := s.indexed(v, urlindex.Prefix("jp,a)/")); len(got) != 42 {
		t.Errorf("%d records of the host, want 42", len(got))
	}
}
