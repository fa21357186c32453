package visible

import (
	"slices"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
)

// Host is what an account sees of one host. It must not be changed.
type Host struct {
	Name     string                 // such as "www.waseda.ac.jp"
	Place    string                 // in the tree, such as "jp/ac/waseda/www"
	Segments []catalog.SegmentEntry // in the order of publication; at least one

	Version    int64     // of the catalog
	Published  time.Time // when that version was published
	Tombstones int       // number of take-downs that the host has

	taken []catalog.Tombstone // take-downs of single URLs
}

// Modified returns the time of the host's newest segment.
func (h *Host) Modified() time.Time { return h.Segments[len(h.Segments)-1].Published }

// TakenDown returns the take-downs of single URLs.
func (h *Host) TakenDown() []catalog.Tombstone { return h.taken }

// MayLack reports whether URLs of a segment may be taken down.
func (h *Host) MayLack(seg catalog.SegmentEntry) bool {
	return slices.ContainsFunc(h.taken, func(t catalog.Tombstone) bool { return t.Edition == "" || t.Edition == seg.Edition })
}

// Gone reports whether a URL of a segment is taken down.
func (h *Host) Gone(seg catalog.SegmentEntry, url string) bool {
	return slices.ContainsFunc(h.taken, func(t catalog.Tombstone) bool {
		return (t.Edition == "" || t.Edition == seg.Edition) && strings.HasPrefix(url, t.URLPrefix)
	})
}

// Left returns the numbers of a segment's cells that are not taken down; nil if these are all.
func (h *Host) Left(seg catalog.SegmentEntry, index *archive.Index) []int {
	if !h.MayLack(seg) {
		return nil
	}
	cells := make([]int, 0, len(index.Cells))
	for i := range index.Cells {
		if !h.Gone(seg, index.Cells[i].URL) {
			cells = append(cells, i)
		}
	}
	if len(cells) == len(index.Cells) {
		return nil
	}
	return cells
}
