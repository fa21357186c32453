package frontier

import (
	"testing"
	"time"
)

// TestFirst: pages from PushFirst come before the queue, but not before the page in hand. Their
// visits survive the process and the cycle, whether the log has the page or not.
func TestFirst(t *testing.T) {
	dir := t.TempDir()
	open := func() *Host {
		t.Helper()
		f, err := Open(dir, 1)
		if err != nil {
			t.Fatal(err)
		}
		h, err := f.Host("www.example.jp")
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first := func(h *Host, want int, entries ...Entry) {
		t.Helper()
		if n, err := h.PushFirst(entries...); n != want || err != nil {
			t.Fatalf("PushFirst = %d, %v; want %d", n, err, want)
		}
	}
	at := func(n int) Visit {
		return Visit{Digest: "sha256:X", Full: time.Unix(int64(n), 0).UTC(), LastModified: `odd @"`}
	}
	asFirst := func(e Entry) Entry { e.First = true; return e }
	news := Entry{URL: "http://www.example.jp/?a=1,2", Depth: 3}

	h := open()
	push(t, h, 3, page(1), page(2), page(3))
	head(t, h, page(1))
	first(h, 2, page(1), news)
	first(h, 0, news)
	if h.Left() != 5 {
		t.Errorf("%d are left, want 5", h.Left())
	}
	head(t, h, page(1)) // in hand
	finish(t, h, Done{Segment: "s", End: 10, Visit: at(1)})
	head(t, h, asFirst(page(1)))
	finish(t, h, Done{Segment: "s", End: 20, Visit: at(2)})
	head(t, h, asFirst(news))
	push(t, h, 0, news)
	finish(t, h, Done{Segment: "s", End: 30, Visit: at(3)})
	head(t, h, page(2))
	finish(t, h, Done{Segment: "s", End: 40, Visit: at(4)})
	first(h, 1, page(2))
	head(t, h, asFirst(page(2)))
	if err := h.Retry(); err != nil { // drops the page
		t.Fatal(err)
	}
	head(t, h, page(3))
	finish(t, h, Done{})
	if !h.Empty() || h.Lost(4) {
		t.Error("pages are left, or lost")
	}
	first(h, 1, page(2))
	if h.Empty() {
		t.Error("the host is empty although a page is left")
	}
	head(t, h, asFirst(page(2)))

	// The process ends when the page's cell is stored but not recorded.
	h = open()
	if done, err := h.Align("s", []Cell{{URL: page(1).URL, End: 10}, {URL: page(1).URL, End: 20}, {URL: news.URL, End: 30}, {URL: page(2).URL, End: 40}, {URL: page(2).URL, End: 50}}); done || err != nil {
		t.Errorf("Align = %t, %v", done, err)
	}
	if h.Lost(7) || !h.Lost(8) {
		t.Error("the journal has not got the page's line")
	}
	visited := map[string]Visit{}
	if err := h.EachVisited(func(e Entry, v Visit) { visited[e.URL] = v }); err != nil {
		t.Fatal(err)
	}
	f, err := Open(dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Advance(2); err != nil {
		t.Fatal(err)
	}
	if h, err = f.Host("www.example.jp"); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]Visit{page(1).URL: at(2), news.URL: at(3), page(2).URL: at(4)} {
		v, ok, err := h.Visit(url)
		if !ok || err != nil || v != want || visited[url] != want {
			t.Errorf("%s: %+v, %t, %v and before %+v, want %+v", url, v, ok, err, visited[url], want)
		}
	}
	n := 0
	if _, err := h.EachKnown(func(e Entry, _ Visit) {
		if n++; e.URL == news.URL && e.Depth != news.Depth {
			t.Errorf("%+v, want depth %d", e, news.Depth)
		}
	}); err != nil || n != 3 {
		t.Errorf("%d pages are known, %v", n, err)
	}
}
