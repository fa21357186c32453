package web

import (
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/records"
	"sheaf/serve/replay"
)

// The ETag of a page with very many versions takes memory for a few at a time.
func TestETagOfManyVersions(t *testing.T) {
	var all mementos
	for n := range 20_000 {
		all = append(all, &records.Capture{Cell: &archive.Cell{URL: "http://www.example.jp/", Time: time.Unix(int64(n), 0)}, Segment: new(catalog.SegmentEntry)})
	}
	r := httptest.NewRequest("GET", "/", nil)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	one := etagOf(r, all, 7, replay.Plain, nil)
	runtime.ReadMemStats(&after)
	if n, most := after.TotalAlloc-before.TotalAlloc, uint64(len(all)*64); n > most {
		t.Errorf("%d bytes were allocated, more than %d", n, most)
	}
	all[9_999].Time = all[9_999].Time.Add(time.Second)
	if etagOf(r, all, 7, replay.Plain, nil) == one {
		t.Error("a version more or less makes no difference")
	}
}
