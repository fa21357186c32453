package catalog

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// DayAt returns the day, yyyymmdd, of a time in the catalog's zone.
func (s *Snapshot) DayAt(t time.Time) string { return t.In(s.catalog.opt.Location).Format(dayForm) }

// History tells which entries of a host were visible at the end of a day, as far as they are still
// stored.
type History struct {
	key     string
	entries []SegmentEntry // including those that are taken down
	expired []SegmentEntry // those that are kept no more
	stones  []Tombstone    // in the order in which they were recorded
	dayAt   func(time.Time) string
}

// History returns the history of a host, without entries that the snapshot's veil hides. It
// includes entries that are taken down; callers must not show them.
func (s *Snapshot) History(ctx context.Context, host string) (*History, error) {
	runs, err := s.live()
	if err != nil {
		return nil, err
	}
	h := &History{key: Key(host), dayAt: s.DayAt}
	if h.stones, err = s.Takedowns(ctx, host); err != nil {
		return nil, err
	}
	expired := openExpiries(runs)
	for row, err := range scan(ctx, runs, tableHost+h.key+" ") {
		var e SegmentEntry
		gone := false
		if err == nil {
			gone, err = expired.hold(ctx, row)
		}
		if err == nil {
			e, err = entryOfRow(row)
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("catalog: history of %s: %w", host, err)
		case s.veil != nil && s.veil.Hides(e):
		case gone:
			h.expired = append(h.expired, e)
		default:
			h.entries = append(h.entries, e)
		}
	}
	return h, nil
}

// Empty reports whether the host never had anything.
func (h *History) Empty() bool { return len(h.entries)+len(h.expired) == 0 }

// Expired reports whether something that was published of the host on a day has expired. Of what is
// taken down it says nothing.
func (h *History) Expired(day string) bool {
	down := tombstones{}
	for _, t := range h.stones {
		down.apply(t)
	}
	return slices.ContainsFunc(h.expired, func(e SegmentEntry) bool { return DayOf(e.Edition) == day && !down.cover(e) })
}

// At returns the entries that were visible at the end of a day, in the order of publication, and
// the take-downs that were in force then. Entries under an embargo at that time were not visible.
// lost has the sequence numbers of entries that cannot be read any more, because they were taken
// down and then erased.
func (h *History) At(day string) (entries []SegmentEntry, stones []Tombstone, lost []int64) {
	live, erased := tombstones{}, tombstones{}
	var embargoes []Tombstone
	for _, t := range h.stones {
		later := h.dayAt(t.At) > day
		switch {
		case t.Act == Erase:
			erased.apply(t)
		case t.Act == Lift && later && !live.down(t) && !slices.ContainsFunc(h.stones, func(o Tombstone) bool { return o.Act == TakeDown && o.same(t) }):
			embargoes = append(embargoes, t) // a lift that ends no take-down
		case !later:
			live.apply(t)
		}
	}
	for _, e := range h.entries {
		embargoed := slices.ContainsFunc(embargoes, func(t Tombstone) bool { return e.Published.Before(t.At) && t.covers(e) })
		switch {
		case DayOf(e.Edition) > day || embargoed || live.cover(e):
		case erased.cover(e):
			lost = append(lost, e.Seq)
		default:
			entries = append(entries, e)
		}
	}
	return entries, live[h.key], lost
}
