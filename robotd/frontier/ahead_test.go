package frontier

import (
	"fmt"
	"os"
	"testing"

	"sheaf/internal/testkit"
)

// rest returns the pages that are left, in order, and finishes them.
func rest(t *testing.T, h *Host) (urls []string) {
	t.Helper()
	for {
		e, ok, err := h.Head()
		testkit.Must(t, err)
		if !ok {
			break
		}
		urls = append(urls, fmt.Sprintf("%s %d", e.URL, e.Tries))
		finish(t, h, Done{Segment: "s", End: int64(10_000 + 512*len(urls))})
	}
	if h.Left() != 0 {
		t.Errorf("%d pages are left at the end", h.Left())
	}
	return urls
}

// A page that is tried again is visited once more, and not twice, wherever Retry is interrupted: by
// a kill, or by a loss of power that takes the journal's last lines.
func TestRetryIsWholeOrNot(t *testing.T) {
	cutTo := func(t *testing.T, dir string, h *Host, size int64, cells ...Cell) *Host {
		testkit.Must(t, os.Truncate(h.path("journal"), size))
		h = open(t, dir, 1)
		_, err := h.Align("s", cells)
		testkit.Must(t, err)
		return h
	}
	both := []string{page(3).URL + " 0", page(2).URL + " 1"}
	first, third := Cell{URL: page(1).URL, End: 512}, Cell{URL: page(3).URL, End: 1024}
	for _, tt := range []struct {
		name      string
		interrupt func(t *testing.T, dir string, h *Host) *Host
		visited   []string
	}{
		{"killed before the line in the journal", func(t *testing.T, dir string, h *Host) *Host {
			before := h.journalSize
			testkit.Must(t, h.Retry())
			return cutTo(t, dir, h, before, first)
		}, both},
		{"the power failed after the next page", func(t *testing.T, dir string, h *Host) *Host {
			before := h.journalSize
			testkit.Must(t, h.Retry())
			finish(t, h, Done{Segment: "s", End: 1024})
			return cutTo(t, dir, h, before, first, third)
		}, both[1:]},
		{"the line of the page before is lost, too", func(t *testing.T, dir string, h *Host) *Host {
			testkit.Must(t, h.Retry())
			return cutTo(t, dir, h, 0, first)
		}, both},
		{"all lines are lost", func(t *testing.T, dir string, h *Host) *Host {
			testkit.Must(t, h.Retry())
			finish(t, h, Done{Segment: "s", End: 1024})
			return cutTo(t, dir, h, 0, first, third)
		}, both[1:]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			h := open(t, dir, 1)
			push(t, h, 3, page(1), page(2), page(3))
			finish(t, h, Done{Segment: "s", End: 512})
			head(t, h, page(2))
			h = tt.interrupt(t, dir, h)
			if h.Left() != len(tt.visited) {
				t.Errorf("%d pages are left, want %d", h.Left(), len(tt.visited))
			}
			if got := rest(t, h); fmt.Sprint(got) != fmt.Sprint(tt.visited) {
				t.Errorf("visited %v, want %v", got, tt.visited)
			}
			if got := rest(t, open(t, dir, 1)); got != nil {
				t.Errorf("visited again: %v", got)
			}
		})
	}
}

// Where the disk takes the copy of a page and not the line about it, the copy is taken back.
func TestRetryOnFullDisk(t *testing.T) {
	h := open(t, t.TempDir(), 1)
	push(t, h, 2, page(1), page(2))
	finish(t, h, Done{Segment: "s", End: 512})
	lift := testkit.FilesUpTo(t, uint64(h.journalSize))
	if lift == nil {
		return
	}
	if err := h.Retry(); err == nil {
		t.Error("a full disk took a line of the journal")
	}
	lift()
	testkit.Must(t, h.Retry())
	if got := rest(t, h); fmt.Sprint(got) != fmt.Sprint([]string{page(2).URL + " 1"}) {
		t.Errorf("visited %v, want page 2 once", got)
	}
}
