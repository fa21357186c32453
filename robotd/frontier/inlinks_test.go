package frontier

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// linksTo returns the links that the state counts to the pages that were never visited.
func linksTo(t *testing.T, h *Host) map[string]int {
	t.Helper()
	all := map[string]int{}
	damaged, err := h.EachKnown(func(e Entry, v Visit) {
		if v.learned() && e.Links != 0 {
			t.Errorf("%s was visited, and still has %d links", e.URL, e.Links)
		}
		all[e.URL] = e.Links
	})
	if err != nil || damaged {
		t.Fatal(damaged, err)
	}
	return all
}

// Links are added up over the cycles for the pages that were never visited, whatever happens to the
// files in between.
func TestCountLinks(t *testing.T) {
	const pages, popular = 400, 399
	dir := t.TempDir()
	visit := Visit{Digest: "sha256:a", Full: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)}
	// night visits n pages; each links to the popular page, twice, and to the one before that.
	night := func(h *Host, n int) {
		t.Helper()
		for range n {
			e, ok, err := h.Head()
			if err != nil || !ok || e == page(popular) {
				t.Fatal(e, ok, err)
			}
			testkit.Must(t, h.CountLinks([]Entry{page(popular), page(popular - 1), page(popular)}))
			finish(t, h, Done{Visit: visit})
		}
	}
	h := open(t, dir, 1)
	for n := range pages {
		push(t, h, 1, page(n))
	}
	night(h, 40)
	testkit.Must(t, h.Sync(func() error { return nil }))
	night(h, 60)
	before := t.TempDir()
	testkit.Must(t, os.CopyFS(before, os.DirFS(h.dir())))
	testkit.Must(t, h.front.Advance(2))
	h, err := h.front.Host(h.Name)
	testkit.Must(t, err)
	for url, n := range linksTo(t, h) {
		switch url {
		case page(popular).URL, page(popular - 1).URL:
			if n != 100 {
				t.Errorf("%s has %d links, want 100", url, n)
			}
		default:
			if n > 1 {
				t.Errorf("%s has %d links, want none", url, n)
			}
		}
	}

	// Killed after the state was renamed: the cycle is settled once more. What was not in its file
	// yet is counted already.
	for _, kind := range []string{"log", "journal", linksKind} {
		data, err := os.ReadFile(filepath.Join(before, "1."+kind))
		testkit.Must(t, err)
		testkit.Must(t, os.WriteFile(filepath.Join(h.dir(), "1."+kind), data, 0o644))
	}
	h = open(t, dir, 2)
	if n := linksTo(t, h)[page(popular).URL]; n != 100 {
		t.Errorf("settled again it has %d links, want 100", n)
	}

	// The next night adds to them, and a visit ends the counting.
	if _, err := h.PushKnown(nil); err != nil {
		t.Fatal(err)
	}
	for h.Left() > 0 {
		e, _, err := h.Head()
		testkit.Must(t, err)
		if e.URL == page(popular).URL {
			testkit.Must(t, h.Retry())
			break
		}
		testkit.Must(t, h.CountLinks([]Entry{page(popular)}))
		finish(t, h, Done{Visit: visit})
	}
	visited := linksVisited(t, h)
	testkit.Must(t, h.front.Advance(3))
	h, err = h.front.Host(h.Name)
	testkit.Must(t, err)
	if n := linksTo(t, h)[page(popular).URL]; n != 100+visited {
		t.Errorf("after %d more visits it has %d links, want %d", visited, n, 100+visited)
	}
	if left, _ := filepath.Glob(filepath.Join(h.dir(), "*.links")); len(left) > 0 {
		t.Errorf("settled cycles left %v", left)
	}
}

func linksVisited(t *testing.T, h *Host) (n int) {
	t.Helper()
	testkit.Must(t, h.EachVisited(func(Entry, Visit) { n++ }))
	return n
}

// A damaged file of links costs no page.
func TestDamagedLinks(t *testing.T) {
	for name, data := range map[string][]byte{"empty": nil, "torn": make([]byte, 13), "noise": []byte("no hashes at all, but something else")} {
		dir := t.TempDir()
		h := open(t, dir, 1)
		for n := range 20 {
			push(t, h, 1, page(n))
		}
		testkit.Must(t, os.WriteFile(h.path(linksKind), data, 0o644))
		if all := linksTo(t, open(t, dir, 2)); len(all) != 20 {
			t.Errorf("%s: %d pages are known, want 20", name, len(all))
		}
	}
}

// A host that makes up links without end fills no disk with them.
func TestCountedLinksAreBounded(t *testing.T) {
	h := open(t, t.TempDir(), 1)
	for n := range countFrom {
		push(t, h, 1, page(n))
	}
	testkit.Must(t, os.WriteFile(h.path(linksKind), nil, 0o644))
	testkit.Must(t, os.Truncate(h.path(linksKind), mostLinks*8))
	var links []Entry
	for n := range linkBuffer {
		links = append(links, page(n))
	}
	testkit.Must(t, h.CountLinks(links))
	if st, err := os.Stat(h.path(linksKind)); err != nil || st.Size() != mostLinks*8 {
		t.Errorf("the file has %d bytes, %v", st.Size(), err)
	}
}

// Hashes of links that the disk takes in part do not shift those after them.
func TestLinksOnFullDisk(t *testing.T) {
	h := open(t, t.TempDir(), 1)
	for n := range countFrom {
		push(t, h, 1, page(n))
	}
	count := func(from int) error {
		var links []Entry
		for n := range linkBuffer / 8 {
			links = append(links, page(from+n))
		}
		return h.CountLinks(links)
	}
	lift := testkit.FilesUpTo(t, 8*100+3)
	if lift == nil {
		return
	}
	if err := count(1000); err == nil {
		t.Error("a full disk took the links")
	}
	lift()
	testkit.Must(t, count(5000))
	counts, err := readLinks(h.path(linksKind))
	testkit.Must(t, err)
	for n := range linkBuffer / 8 {
		if got := counts.of(hash(page(5000 + n).URL)); got == 0 {
			t.Fatalf("%s has no link", page(5000+n).URL)
		}
	}
}

// A loss of power may tear the last hash.
func TestTornLinks(t *testing.T) {
	h := open(t, t.TempDir(), 1)
	testkit.Must(t, os.WriteFile(h.path(linksKind), make([]byte, 8+3), 0o644))
	h.links.add([]uint64{hash(page(1).URL)})
	testkit.Must(t, h.links.flush(h.path(linksKind), 0))
	counts, err := readLinks(h.path(linksKind))
	testkit.Must(t, err)
	if got := counts.of(hash(page(1).URL)); got != 1 {
		t.Errorf("the page has %d links, want 1", got)
	}
}
