package texts

import (
	"io"
	"runtime"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// A short text costs its own bytes and some kilobytes: a night has millions of them.
func TestShortTextsTakeLittleMemory(t *testing.T) {
	const n, most = 100, 128 << 10
	w, err := NewWET(io.Discard)
	testkit.Must(t, err)
	text := &Text{Title: "title", Main: strings.Repeat("some words of a page, ", 200), Language: "en"}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		testkit.Must(t, w.Add(text, Origin{URL: "http://www.example.jp/", Record: "<urn:uuid:1>"}))
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / n; each > most {
		t.Errorf("%d bytes were allocated for each, more than %d", each, most)
	}
}
