package urlindex_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sheaf/archive/store"
	"sheaf/archive/urlindex"
	"sheaf/internal/testkit"
)

// A reader that is written after the published description of ZipNum finds the same in the runs as
// the index itself.
func TestOtherReader(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	python := testkit.Tool(t, "python3")
	dir := t.TempDir()
	st, err := store.OpenFS(dir)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = st.Close() })
	s := newSiteIn(t, st)
	for day := range 2 {
		at := noon.Add(time.Duration(day) * 24 * time.Hour)
		for n := range 500 {
			s.publishLater(page(fmt.Sprintf("http://www.a%d.jp/p/%d?q=%d", n%3, n, n), fmt.Sprint(day, n), at))
		}
		s.publishLater(page("http://a0.jp/\"\\", "odd", at))
		s.publishAll()
		s.update()
	}
	runs, err := filepath.Glob(filepath.Join(dir, "urls/runs/*/cluster.idx"))
	testkit.Must(t, err)
	if len(runs) != 2 {
		t.Fatalf("runs %v", runs)
	}
	v := s.view()
	for _, in := range []urlindex.Range{
		urlindex.Exact("jp,a1)/p/100?q=100"), urlindex.Exact("jp,a1)/none"), urlindex.Prefix("jp,a2)/p/4"), urlindex.Prefix("jp,"),
		urlindex.Prefix("a"), urlindex.Prefix("z"), urlindex.Prefix("jp,a0)/\""),
	} {
		want := make(map[string]int)
		for r, err := range rowsOf(t.Context(), v, in) {
			testkit.Must(t, err)
			want[fmt.Sprintf("%s %s %d %d", r.URL, r.Filename, r.FileOffset, r.WARCLength())]++
		}
		for _, run := range runs {
			out, err := exec.CommandContext(t.Context(), python, "testdata/zipnum.py", run, in.From, in.To).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for line := range strings.Lines(string(out)) {
				f := parse(t, line)
				want[fmt.Sprintf("%s %s %s %s", f.URL, f.Filename, f.Offset, f.Length)]--
			}
		}
		for of, n := range want {
			if n != 0 {
				t.Errorf("%+v: %s: the other reader found it %d times too seldom", in, of, n)
			}
		}
	}
}
