package library

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/internal/api"
	"sheaf/internal/weburl"
	"sheaf/serve/account"
)

// Host is what an account sees of one host. It must not be changed.
type Host struct {
	Name     string                 // such as "www.waseda.ac.jp"
	Place    string                 // in the tree, such as "jp/ac/waseda/www"
	Segments []catalog.SegmentEntry // in the order of publication; at least one

	Version    int64     // of the catalog
	Published  time.Time // when that version was published
	Tombstones int       // number of take-downs that the host has

	from   *Library
	stones []catalog.Tombstone // the take-downs
	taken  []takenPages        // those that name a URL prefix
	veil   *account.Veil       // hides records; nil: none

	altered []catalog.Alteration // of the host, by time
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

// Altered reports whether something of the host is or was withheld.
func (h *Host) Altered() bool { return h.veil != nil || len(h.altered) > 0 }

// Modified returns the later of two times: published, and when something of the host was last taken
// down, hidden or shown again. It considers the alterations for which counts returns true, and the
// access rules if hidden is true. Each change gets a second of its own. So a program that compares
// whole seconds notices each change.
func (h *Host) Modified(published time.Time, counts func(catalog.Alteration) bool, hidden bool) time.Time {
	var rules []time.Time
	if hidden {
		rules = h.veil.Since("")
	}
	return lastOf(published, h.altered, counts, rules)
}

// Hidden reports whether rules hide some of a segment's records.
func (h *Host) Hidden(seg catalog.SegmentEntry, index *archive.Index) bool {
	return slices.ContainsFunc(index.Cells, func(c archive.Cell) bool { return h.veil.HidesRecord(seg, c.URL, c.Time) })
}

// NamesURLs reports whether pages of an edition may be, or have been, taken down by their URLs.
func (h *Host) NamesURLs(edition string) bool {
	return slices.ContainsFunc(h.altered, func(a catalog.Alteration) bool {
		return a.URLPrefix != "" && (a.Edition == "" || a.Edition == edition)
	})
}

// MayHide reports whether rules may hide some of a segment's records.
func (h *Host) MayHide(seg catalog.SegmentEntry) bool { return h.veil.MayHide(seg) }

// lastOf returns the latest of these: published, the alterations a for which of(a) is true, and the
// times at which access rules came into force.
func lastOf(published time.Time, by []catalog.Alteration, of func(catalog.Alteration) bool, rules []time.Time) time.Time {
	var times []time.Time
	for _, a := range by {
		if of(a) && (len(times) == 0 || a.At.After(times[len(times)-1])) {
			times = append(times, a.At)
		}
	}
	for _, t := range rules {
		times = append(times, catalog.Tick(t, time.Time{}))
	}
	slices.SortFunc(times, time.Time.Compare)
	var last time.Time
	for _, t := range times {
		if !t.After(last) { // of the same second: take the next one
			t = catalog.Tick(last, last)
		}
		last = t
	}
	if published.After(last) {
		return published
	}
	return last
}

// Lacks returns a key of the host's records that may be missing: those taken down by URL, and those
// that rules hide. It is "" if no record is missing.
func (h *Host) Lacks() string {
	lacks := h.veil.State()
	for _, t := range h.taken {
		lacks += fmt.Sprintf(" %q %q", t.Edition, t.URLPrefix)
	}
	return lacks
}

// Withheld returns a key of all that may be taken down or hidden of the host, including whole
// segments.
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

// Gone reports whether a segment's record of a URL is taken down or hidden. at is when the record
// was fetched; zero if that is not known.
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

// HostReport is all that is published of one host, with its take-downs.
type HostReport struct {
	Segments []catalog.SegmentEntry // in the order of publication
	// Newest is what the manifest of the newest batch says about pages that were not collected; nil
	// if it says nothing.
	Newest    *api.Coverage
	TakenDown []catalog.Tombstone // in force
}

// ReportHost tells what is published of a host. The report is empty if the account does not see the
// host.
func ReportHost(ctx context.Context, from *Library, a *account.Account, host string) (r HostReport, err error) {
	v, err := from.View(ctx, a)
	if err != nil {
		return r, err
	}
	defer v.Release()
	if !v.Scope.Holds(naming.HostPath(host)) {
		return r, nil
	}
	if r.Segments, err = v.Snap.Host(ctx, host); err != nil {
		return r, fmt.Errorf("segments of %s: %w", host, err)
	}
	if len(r.Segments) == 0 && v.Veil.OfHost(host) != nil {
		return r, nil
	}
	r.TakenDown = slices.DeleteFunc(slices.Clone(v.Snap.Tombstones(host)), func(t catalog.Tombstone) bool {
		return t.Act == catalog.Erase || t.URLPrefix != "" && v.Veil.HidesSome(host, t.URLPrefix)
	})
	if len(r.Segments) == 0 {
		return r, nil
	}
	id := r.Segments[len(r.Segments)-1].Batch
	version, ok, err := v.Snap.Batch(ctx, id)
	if err != nil || !ok {
		return r, err
	}
	batch := catalog.PublishedBatch{Batch: catalog.Batch{ID: id}, Version: version}
	s := CoverageSearch{Targets: []Target{{Match: MatchHost, Host: host}}}
	found, _, err := coverageInBatch(ctx, v, batch, &s, indexTargets(s.Targets), 0, 1)
	if err == nil && len(found) > 0 {
		r.Newest = &found[0]
	}
	return r, err
}
