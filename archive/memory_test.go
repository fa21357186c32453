package archive

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
)

// BenchmarkMemory reports what a writer and an index hold of one host's cells, in bytes a cell.
// There are SHEAF_BENCH_CELLS cells, 100,000 where that is not set.
func BenchmarkMemory(b *testing.B) {
	cells := 100_000
	if text := os.Getenv("SHEAF_BENCH_CELLS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			b.Fatalf("SHEAF_BENCH_CELLS: %v", err)
		}
		cells = n
	}
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for b.Loop() {
		path := filepath.Join(b.TempDir(), "segment")
		before := heap()
		w, err := Create(path, testHost, "memory", WriterOptions{Level: 1})
		if err != nil {
			b.Fatal(err)
		}
		for i := range cells {
			if _, err := w.Append(page(fmt.Sprintf("/docs/section-%d/page-%d.html", i/100, i), "text/html", []byte("<p>page"), i)); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric((heap()-before)/float64(cells), "writer-B/cell")
		if _, err := w.Seal(); err != nil {
			b.Fatal(err)
		}
		w = nil
		data, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		before = heap()
		x, err := ReadIndex(context.Background(), sourceOf(data), int64(len(data)))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric((heap()-before)/float64(cells), "index-B/cell")
		before = heap()
		v, err := NewView(Single, []Part{partOf(data, x)})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric((heap()-before)/float64(cells), "view-B/cell")
		runtime.KeepAlive(v)
		var was, is runtime.MemStats
		runtime.ReadMemStats(&was)
		if _, err := VerifySegment(bytes.NewReader(data), VerifyOptions{}); err != nil {
			b.Fatal(err)
		}
		runtime.ReadMemStats(&is)
		b.ReportMetric(float64(is.TotalAlloc-was.TotalAlloc)/float64(cells), "verify-allocated-B/cell")
		runtime.KeepAlive(x)
		runtime.KeepAlive(data)
	}
}
