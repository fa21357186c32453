package visible

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/weburl"
	"sheaf/serve/access"
)

// Host is what an account sees of one host. It must not be changed.
type Host struct {
	Name     string                 // such as "www.waseda.ac.jp"
	Place    string                 // in the tree, such as "jp/ac/waseda/www"
	Segments []catalog.SegmentEntry // in the order of publication; at least one

	Version    int64     // of the catalog
	Published  time.Time // when that version was published
	Tombstones int       // number of take-downs that the host has

	stones []catalog.Tombstone // the take-downs
	taken  []takenPages        // those of single URLs
	veil   *access.Veil        // hides records; nil: none
}

// takenPages are pages that are taken down by their URLs.
type takenPages struct {
	catalog.Tombstone
	prefix weburl.Prefix
}

// in reports whether the take-down counts for a segment.
func (t takenPages) in(seg catalog.SegmentEntry) bool {
	return t.Edition == "" || t.Edition == seg.Edition
}

// Modified returns the time of the host's newest segment.
func (h *Host) Modified() time.Time { return h.Segments[len(h.Segments)-1].Published }

// Lacks names the records of the host that may be missing because they are taken down or hidden; it
// is empty if none is.
func (h *Host) Lacks() string {
	var b strings.Builder
	for _, t := range h.taken {
		fmt.Fprintf(&b, " %q %q", t.Edition, t.URLPrefix)
	}
	return b.String() + h.veil.State()
}

// Withheld names all that may be missing of the host because it is taken down or hidden, whole
// segments too.
func (h *Host) Withheld() string {
	var b strings.Builder
	for _, t := range h.stones {
		fmt.Fprintf(&b, " %q %q %q", t.Edition, t.URLPrefix, t.Collection)
	}
	return b.String() + h.veil.State()
}

// MayLack reports whether records of a segment may be taken down or hidden.
func (h *Host) MayLack(seg catalog.SegmentEntry) bool {
	return h.veil.MayHide(seg) ||
		slices.ContainsFunc(h.taken, func(t takenPages) bool { return t.in(seg) })
}

// Gone reports whether a record of a segment, of a URL that was fetched at a time, is taken down or
// hidden. If the time is not known, it is zero.
func (h *Host) Gone(seg catalog.SegmentEntry, url string, at time.Time) bool {
	return h.veil.HidesRecord(seg, url, at) || slices.ContainsFunc(h.taken, func(t takenPages) bool {
		return t.in(seg) && t.prefix.Holds(url)
	})
}

// Left returns the numbers of a segment's cells that are neither taken down nor hidden; nil if
// these are all.
func (h *Host) Left(seg catalog.SegmentEntry, index *archive.Index) []int {
	if !h.MayLack(seg) {
		return nil
	}
	cells := make([]int, 0, len(index.Cells))
	for i := range index.Cells {
		if c := &index.Cells[i]; !h.Gone(seg, c.URL, c.Time) {
			cells = append(cells, i)
		}
	}
	if len(cells) == len(index.Cells) {
		return nil
	}
	return cells
}
