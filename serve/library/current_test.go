package library

import (
	"slices"
	"testing"
	"time"

	"sheaf/archive"
)

// What makes the latest version what it is includes the page of a revisit that is not counted yet:
// without it two more nights in which the page breaks off would not be the third.
func TestDecisiveCutsHaveTheirPages(t *testing.T) {
	t.Parallel()
	night := func(n int) time.Time { return time.Date(2026, 11, n, 3, 0, 0, 0, time.UTC) }
	cell := func(n int, kind archive.Kind, digest, truncated string) archive.Cell {
		return archive.Cell{Kind: kind, URL: "http://a.jp/", Digest: digest, Time: night(n), Status: 200, Truncated: truncated}
	}
	var parts []archive.Part
	for _, c := range []archive.Cell{
		cell(1, archive.Page, "half", archive.TruncatedDisconnect), cell(2, archive.Page, "old", ""), cell(3, archive.Page, "whole", ""),
		cell(4, archive.Revisit, "half", ""), cell(5, archive.Page, "quarter", archive.TruncatedTime),
	} {
		parts = append(parts, archive.Part{Index: &archive.Index{Cells: []archive.Cell{c}}})
	}
	var got []int
	for _, s := range decisive(parts, spots(parts)["http://a.jp/"]) {
		got = append(got, s.part)
	}
	slices.Sort(got)
	if want := []int{0, 2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("decisive are %v, want %v", got, want)
	}
}
