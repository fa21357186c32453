package frontier

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// damages are the ways to damage a byte.
var damages = map[string]func(b []byte, at int) []byte{
	"flipped bit":  func(b []byte, at int) []byte { b[at] ^= 1; return b },
	"flipped byte": func(b []byte, at int) []byte { b[at] ^= 0xff; return b },
	"line end":     func(b []byte, at int) []byte { b[at] = '\n'; return b },
	"cut":          func(b []byte, at int) []byte { return b[:at] },
	"zeros":        func(b []byte, at int) []byte { clear(b[at:]); return b },
}

// everyByte in the environment makes the tests damage every byte, instead of one in seven.
const everyByte = "SHEAF_TEST_DAMAGE"

func bytesOf(t *testing.T, size int) func(yield func(int) bool) {
	step := 7
	if os.Getenv(everyByte) != "" {
		step = 1
	}
	return func(yield func(int) bool) {
		for n := testkit.Random(t).IntN(step); n < size; n += step {
			if !yield(n) {
				return
			}
		}
	}
}

// TestDamageAtEveryByte damages each of a host's files at every byte. The segment has the cells of
// pages 1 to 3, and page 1 links to all others. Whatever is damaged, collected pages are not
// fetched again, and all others are fetched once.
func TestDamageAtEveryByte(t *testing.T) {
	testkit.Slow(t)
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	visit := func(n int) Visit { return Visit{Digest: fmt.Sprint("sha256:", n), Full: at} }
	cells := []Cell{
		{URL: page(1).URL, End: 512, Visit: visit(1)}, {URL: page(2).URL, End: 1024, Visit: visit(2)}, {URL: page(3).URL, End: 1536, Visit: visit(3)},
	}
	links := []Entry{page(2), page(3), page(4), page(5), page(6), page(7)}

	whole := t.TempDir()
	h := open(t, whole, 1)
	push(t, h, 1, page(1))
	push(t, h, 6, links...)
	finish(t, h, Done{Segment: "s", End: 512, Visit: visit(1)})
	finish(t, h, Done{Segment: "s", End: 1024, Visit: visit(2)})
	// The process was killed after writing the cell of page 3 and before its journal line.

	for _, kind := range []string{"log", "journal"} {
		path, err := filepath.Rel(whole, filePath(h.dir(), 1, kind))
		if err != nil {
			t.Fatal(err)
		}
		size := sizeOf(t, filepath.Join(whole, path))
		for name, damage := range damages {
			for n := range bytesOf(t, size) {
				dir := t.TempDir()
				if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
					t.Fatal(err)
				}
				change(t, filepath.Join(dir, path), func(b []byte) []byte { return damage(b, n) })
				if err := recovered(dir, cells, links, map[string]int{page(4).URL: 1, page(5).URL: 1, page(6).URL: 1, page(7).URL: 1}); err != nil {
					t.Fatalf("%s at byte %d of %s: %v", name, n, kind, err)
				}
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// recovered opens a host as the robot does and fetches what is left.
func recovered(dir string, cells []Cell, links []Entry, want map[string]int) error {
	f, err := Open(dir, 1)
	if err != nil {
		return err
	}
	h, err := f.Host("www.example.jp:8080")
	if err != nil {
		return err
	}
	if h.Damaged() {
		if unseen, err := h.Rebuild("s", cells[len(cells)-1].End, cells); err != nil || unseen != 0 {
			return fmt.Errorf("%d pages unseen, %w", unseen, err)
		}
	}
	if _, err := h.Align("s", cells); err != nil {
		return err
	}
	if _, err := h.Push(append(links, page(1))...); err != nil {
		return err
	}
	fetched := make(map[string]int)
	for {
		e, ok, err := h.Head()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		fetched[e.URL]++
		if err := h.Finish(Done{Segment: "s", End: 2048}); err != nil {
			return err
		}
	}
	if fmt.Sprint(fetched) != fmt.Sprint(want) {
		return fmt.Errorf("fetched %v, want %v", fetched, want)
	}
	return errors.Join(f.Advance(2), visitsOf(f, cells))
}

// visitsOf checks the remembered visits of the cells' pages.
func visitsOf(f *Frontier, cells []Cell) error {
	h, err := f.Host("www.example.jp:8080")
	if err != nil {
		return err
	}
	for _, c := range cells {
		if v, ok, err := h.Visit(c.URL); err != nil || ok && v != c.Visit {
			return fmt.Errorf("visit of %s is %+v, %w", c.URL, v, err)
		}
	}
	return nil
}

// The state is damaged at every byte. Each remembered visit is right. If a page is lost, no page
// has a visit, so that links to the lost one are found again.
func TestDamagedState(t *testing.T) {
	testkit.Slow(t)
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	visit := func(n int) Visit { return Visit{Digest: fmt.Sprint("sha256:", n), Full: at, ETag: `"e"`} }
	whole := t.TempDir()
	f, err := Open(whole, 1)
	if err != nil {
		t.Fatal(err)
	}
	h, err := f.Host("www.example.jp:8080")
	if err != nil {
		t.Fatal(err)
	}
	const pages = 4
	for n := range pages {
		push(t, h, 1, page(n))
		finish(t, h, Done{Visit: visit(n)})
	}
	if err := f.Advance(2); err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Rel(whole, filepath.Join(h.dir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range damages {
		for n := range bytesOf(t, sizeOf(t, filepath.Join(whole, path))) {
			for _, settle := range []bool{false, true} { // before or after the robot has read it
				dir := t.TempDir()
				if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
					t.Fatal(err)
				}
				cycle := int64(2)
				if settle {
					h := open(t, dir, cycle)
					push(t, h, 1, page(0))
					finish(t, h, Done{Visit: visit(0)})
					cycle++
				}
				change(t, filepath.Join(dir, path), func(b []byte) []byte { return damage(b, n) })
				h := open(t, dir, cycle)
				before := h.Left()
				_, err := h.PushKnown(nil)
				known := h.Left() - before
				if err != nil {
					t.Fatalf("%s at byte %d: %v", name, n, err)
				}
				visits := 0
				for p := range pages {
					v, ok, err := h.Visit(page(p).URL)
					if err != nil || ok && v != visit(p) && v != (Visit{}) {
						t.Fatalf("%s at byte %d: visit %+v, %v", name, n, v, err)
					}
					if ok && v != (Visit{}) {
						visits++
					}
				}
				if known < pages && visits > 0 {
					t.Fatalf("%s at byte %d: %d pages are known, %d with visits", name, n, known, visits)
				}
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// FuzzFiles opens a host with arbitrary files.
func FuzzFiles(f *testing.F) {
	dir := f.TempDir()
	frontier, err := Open(dir, 1)
	if err != nil {
		f.Fatal(err)
	}
	h, err := frontier.Host("www.example.jp:8080")
	if err != nil {
		f.Fatal(err)
	}
	if _, err := h.Push(page(1), page(2)); err != nil {
		f.Fatal(err)
	}
	if err := h.Finish(Done{Segment: "s", End: 512, Visit: Visit{Digest: "sha256:x", ETag: `"`}}); err != nil {
		f.Fatal(err)
	}
	var files [2][]byte
	for i, kind := range []string{"log", "journal"} {
		if files[i], err = os.ReadFile(h.path(kind)); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(files[0], files[1], []byte(stateHeader+"0\n"))
	f.Fuzz(func(t *testing.T, log, journal, state []byte) {
		f, err := Open(t.TempDir(), 1)
		if err != nil {
			t.Fatal(err)
		}
		dir := f.path("h")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{"1.log": log, "1.journal": journal, "state": state} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		h, err := f.Host("h")
		if err != nil {
			t.Fatal(err)
		}
		if h.Damaged() {
			if _, err := h.Rebuild("", 0, nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := h.PushKnown(nil); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Push(page(9)); err != nil {
			t.Fatal(err)
		}
		for !h.Empty() {
			if err := h.Finish(Done{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Advance(2); err != nil {
			t.Fatal(err)
		}
	})
}

func sizeOf(t *testing.T, path string) int {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return int(st.Size())
}

func change(t *testing.T, path string, how func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, how(data), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A host that was rebuilt without some of its collected pages has forgotten all visits, even if the
// robot is killed at once: an answer "not modified" would hide the links that are lost.
func TestRebuildForgetsVisits(t *testing.T) {
	dir := t.TempDir()
	visit := Visit{Digest: "sha256:A", Full: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)}
	h := open(t, dir, 1)
	push(t, h, 1, page(1))
	finish(t, h, Done{Segment: "s", End: 512, Visit: visit})
	testkit.Must(t, h.front.Advance(2))
	h, err := h.front.Host(h.Name)
	testkit.Must(t, err)
	push(t, h, 2, page(2), page(3))
	finish(t, h, Done{Segment: "s", End: 512, Visit: visit})
	testkit.Must(t, os.Truncate(h.path("log"), 3))

	h = open(t, dir, 2)
	if unseen, err := h.Rebuild("", 0, nil); err != nil || unseen != 1 {
		t.Fatalf("%d pages unseen, %v; want page 2", unseen, err)
	}
	h = open(t, dir, 2)
	if _, known, err := h.Visit(page(1).URL); known || err != nil || h.Damaged() {
		t.Errorf("the rebuilt host has a visit: %t, %v; damaged: %t", known, err, h.Damaged())
	}
	testkit.Must(t, h.EachVisited(func(e Entry, _ Visit) { t.Errorf("%s has a visit", e.URL) }))
}

// Settling that was interrupted while it removed a cycle's files removes the others later, and
// brings no page back.
func TestCrashWhileSettling(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, 1)
	push(t, h, 1, page(1))
	finish(t, h, Done{Segment: "s", End: 512, Visit: Visit{Gone: true}})
	journal, err := os.ReadFile(h.path("journal"))
	testkit.Must(t, err)
	h = open(t, dir, 2)
	testkit.Must(t, os.WriteFile(filePath(h.dir(), 1, "journal"), journal, 0o644))
	h = open(t, dir, 2)
	if _, err := h.EachKnown(func(e Entry, _ Visit) { t.Errorf("%s is known", e.URL) }); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(h.dir(), "1.*")); len(left) > 0 {
		t.Errorf("the settled cycle left %v", left)
	}
}
