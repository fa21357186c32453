package frontier

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func open(t *testing.T, dir string, cycle int64) *Host {
	t.Helper()
	f, err := Open(dir, cycle)
	if err != nil {
		t.Fatal(err)
	}
	h, err := f.Host("www.example.jp:8080")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func page(n int) Entry { return Entry{URL: fmt.Sprintf("http://www.example.jp:8080/%d", n)} }

func push(t *testing.T, h *Host, want int, entries ...Entry) {
	t.Helper()
	if n, err := h.Push(entries...); err != nil || n != want {
		t.Fatalf("Push = %d, %v; want %d", n, err, want)
	}
}

func head(t *testing.T, h *Host, want Entry) {
	t.Helper()
	if e, ok, err := h.Head(); err != nil || !ok || e != want {
		t.Fatalf("Head = %+v, %t, %v; want %+v", e, ok, err, want)
	}
}

func finish(t *testing.T, h *Host, d Done) {
	t.Helper()
	if err := h.Finish(d); err != nil {
		t.Fatal(err)
	}
}

func TestQueueSurvivesReopening(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, 1)
	push(t, h, 3, page(1), page(2), page(3), page(2))
	head(t, h, page(1))
	finish(t, h, Done{Segment: "s", End: 512})

	h = open(t, dir, 1)
	push(t, h, 1, page(1), page(4))
	head(t, h, page(2))
	if err := h.Retry(); err != nil {
		t.Fatal(err)
	}
	head(t, h, page(3))
	finish(t, h, Done{})
	head(t, h, page(4))
	finish(t, h, Done{})
	again := page(2)
	again.Tries = 1
	head(t, h, again)
	finish(t, h, Done{})
	if !h.Empty() || !open(t, dir, 1).Empty() {
		t.Error("the queue is not empty at its end")
	}
	if err := h.Finish(Done{}); err == nil {
		t.Error("Finish without a page in hand succeeded")
	}
	if h.Len() != 4 {
		t.Errorf("Len = %d, want 4", h.Len())
	}
}

// The ends of the journal and of the log are cut at every byte. The queue must then contain every
// page and repeat none from before the cut.
func TestTornTails(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, 1)
	push(t, h, 3, page(1), page(2), page(3))
	finish(t, h, Done{Segment: "s", End: 512})
	finish(t, h, Done{Segment: "s", End: 1024})
	journal, err := os.ReadFile(h.path("journal"))
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(h.path("log"))
	if err != nil {
		t.Fatal(err)
	}
	first := bytes.IndexByte(journal, '\n') + 1
	for n := range len(journal) + 1 {
		want := page(1)
		if n >= first {
			want = page(2)
		}
		if n == len(journal) {
			want = page(3)
		}
		if err := os.WriteFile(h.path("journal"), journal[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		got := open(t, dir, 1)
		head(t, got, want)
		push(t, got, 0, page(1), page(2), page(3))
	}
	if err := os.WriteFile(h.path("journal"), journal, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.path("log"), append(log, "0 0 0 http://www.exam"...), 0o644); err != nil {
		t.Fatal(err)
	}
	got := open(t, dir, 1)
	head(t, got, page(3))
	push(t, got, 1, page(4))
	finish(t, got, Done{})
	head(t, got, page(4))
	got = open(t, dir, 1)
	push(t, got, 0, page(1), page(4))
}

func TestAlign(t *testing.T) {
	cell := func(n int, end int64) Cell { return Cell{URL: page(n).URL, End: end} }
	for _, tt := range []struct {
		name     string
		segment  string
		cells    []Cell
		finished bool
		next     int // page in hand afterwards
	}{
		{"nothing was in hand", "s", []Cell{cell(1, 512), cell(2, 1024)}, false, 3},
		{"cell written, journal not", "s", []Cell{cell(1, 512), cell(2, 1024), cell(3, 1536)}, true, 4},
		{"cell lost with the power", "s", []Cell{cell(1, 512)}, false, 2},
		{"all cells lost", "s", nil, false, 1},
		{"segment sealed since", "", nil, false, 3},
		{"page in hand is the first of a new segment", "t", []Cell{cell(3, 512)}, true, 4},
		{"another page's cell", "t", []Cell{cell(9, 512)}, false, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			h := open(t, dir, 1)
			push(t, h, 4, page(1), page(2), page(3), page(4))
			finish(t, h, Done{Segment: "s", End: 512})
			finish(t, h, Done{Segment: "s", End: 1024})
			h = open(t, dir, 1)
			finished, err := h.Align(tt.segment, tt.cells)
			if err != nil || finished != tt.finished {
				t.Fatalf("Align = %t, %v; want %t", finished, err, tt.finished)
			}
			head(t, h, page(tt.next))
			head(t, open(t, dir, 1), page(tt.next))
		})
	}
}

func TestVisitsOverCycles(t *testing.T) {
	dir := t.TempDir()
	at := time.Date(2026, 11, 21, 3, 0, 0, 1, time.UTC)
	visit := func(n int, at time.Time) Visit {
		return Visit{Digest: fmt.Sprint("sha256:", n), Full: at, ETag: `"a b" "`, LastModified: "Sat, 21 Nov 2026 03:00:00 GMT"}
	}
	const pages = 300
	for cycle := range int64(3) {
		h := open(t, dir, cycle)
		for n := range pages {
			push(t, h, 1, page(n))
			v := Visit{}
			if int64(n)%3 == cycle {
				v = visit(n, at.AddDate(0, 0, int(cycle)))
			}
			finish(t, h, Done{Visit: v})
		}
	}
	f, err := Open(dir, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Advance(4); err != nil {
		t.Fatal(err)
	}
	h, err := f.Host("www.example.jp:8080")
	if err != nil {
		t.Fatal(err)
	}
	for n := range pages {
		want := visit(n, at.AddDate(0, 0, n%3))
		if got, ok, err := h.Visit(page(n).URL); err != nil || !ok || got != want {
			t.Fatalf("Visit(%d) = %+v, %t, %v; want %+v", n, got, ok, err, want)
		}
	}
	if _, err := h.PushKnown(nil); err != nil || h.Left() != pages {
		t.Fatalf("PushKnown queued %d, %v; want %d", h.Left(), err, pages)
	}
	for !h.Empty() {
		e, _, err := h.Head()
		if err != nil {
			t.Fatal(err)
		}
		finish(t, h, Done{Visit: Visit{Gone: e == page(7)}})
	}
	if err := f.Advance(5); err != nil {
		t.Fatal(err)
	}
	if h, err = f.Host(h.Name); err != nil {
		t.Fatal(err)
	}
	if _, err := h.PushKnown(nil); err != nil || h.Left() != pages-1 {
		t.Fatalf("PushKnown without the page that is gone queued %d, %v; want %d", h.Left(), err, pages-1)
	}
	if err := f.Advance(6); err != nil {
		t.Fatal(err)
	}
	if h, err = f.Host(h.Name); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := h.Visit(page(pages).URL); ok || err != nil {
		t.Errorf("a page that was never visited has a visit: %t, %v", ok, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "??", "*", "[0-3].*")); len(left) > 0 {
		t.Errorf("settled cycles left files: %v", left)
	}
	push(t, h, 1, page(1))
	finish(t, h, Done{Visit: visit(1, at)})
	if err := f.ForgetVisits(h.Name); err != nil {
		t.Fatal(err)
	}
	push(t, h, 0, page(1))
	if err := f.Advance(7); err != nil {
		t.Fatal(err)
	}
	if h, err = f.Host(h.Name); err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := h.Visit(page(1).URL); ok {
		t.Error("a forgotten page has a visit")
	}
	if names, err := f.Names(); err != nil || len(names) != 1 || names[0] != h.Name {
		t.Errorf("Names = %v, %v", names, err)
	}
	if err := f.Forget(h.Name); err != nil {
		t.Fatal(err)
	}
	if names, _ := f.Names(); len(names) != 0 {
		t.Errorf("Names after Forget = %v", names)
	}
}

// A page that was put off to another cycle, but must be visited in this one, is queued once.
func TestPushNow(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, 0)
	for n := range 3 {
		push(t, h, 1, page(n))
		finish(t, h, Done{Visit: Visit{Digest: "sha256:a", Full: time.Now()}})
	}
	h = open(t, dir, 1)
	turns := []Turn{Then, Later, Later}
	if later, err := h.PushKnown(turns); h.Left() != 1 || later != 2 || err != nil {
		t.Fatalf("%d queued, %d put off, %v", h.Left(), later, err)
	}
	known := make([]Entry, 0, len(turns))
	if _, err := h.EachKnown(func(e Entry, _ Visit) { known = append(known, e) }); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 0} {
		if n, err := PushNow(h, known[0], known[1], page(7)); n != want || err != nil {
			t.Errorf("%d had been put off, %v; want %d", n, err, want)
		}
	}
	if h.Left() != 3 {
		t.Errorf("%d are queued, want one that is known, a new one, and the one that was put off", h.Left())
	}
	if n, err := PushNow(open(t, dir, 1), known[0], known[1], page(7)); n != 0 || err != nil {
		t.Errorf("after a restart %d had been put off, %v", n, err)
	}
}
