package catalog

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// DayAt returns the day, yyyymmdd, of a time in the catalog's zone.
func (s *Snapshot) DayAt(t time.Time) string { return t.In(s.catalog.opt.Location).Format(dayForm) }

// DayEnd returns the end of a day, yyyymmdd, in the catalog's zone: the first moment of the next
// day.
func (s *Snapshot) DayEnd(day string) (time.Time, error) {
	begin, err := time.ParseInLocation(dayForm, day, s.catalog.opt.Location)
	return begin.AddDate(0, 0, 1), err
}

// History tells which entries of a host were visible at the end of a day, as far as they are still
// stored.
type History struct {
	key     string
	entries []SegmentEntry // including taken-down entries
	expired []SegmentEntry // their objects may be deleted
	stones  []Tombstone    // in the order in which they were recorded
	dayAt   func(time.Time) string
}

// History returns the history of a host. It includes taken-down entries and entries that the
// snapshot's veil hides. Callers must show taken-down entries to nobody.
func (s *Snapshot) History(ctx context.Context, host string) (*History, error) {
	h := &History{key: Key(host), dayAt: s.DayAt}
	var err error
	if h.stones, err = s.Takedowns(ctx, host); err != nil {
		return nil, err
	}
	expired := openExpiries(s.state.runs)
	for row, err := range s.scan(ctx, tableHost+h.key+" ", "") {
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
		case gone:
			h.expired = append(h.expired, e)
		default:
			h.entries = append(h.entries, e)
		}
	}
	return h, nil
}

// Empty reports whether the host never had an entry.
func (h *History) Empty() bool { return len(h.entries)+len(h.expired) == 0 }

// Expired reports whether any of the host's entries of a day has expired. It ignores entries that
// the veil hides or that are taken down.
func (h *History) Expired(day string, veil Veil) bool {
	down := tombstones{}
	for _, t := range h.stones {
		down.apply(t)
	}
	return slices.ContainsFunc(h.expired, func(e SegmentEntry) bool { return DayOf(e.Edition) == day && !down.cover(e) && !veil.Hides(e) })
}

// Cover is a Veil that may also hide single records. MayHide reports whether the veil may hide any
// of an entry's records.
type Cover interface {
	Veil
	MayHide(l SegmentEntry) bool
}

// At returns the entries that were visible under the veil at the end of a day, in the order of
// publication, and the take-downs that were in force then. lost has the sequence numbers of entries
// that were visible then and are erased or have expired since. It omits an expired entry if the
// veil may hide any of its records.
func (h *History) At(day string, veil Cover) (entries []SegmentEntry, stones []Tombstone, lost []int64) {
	live, erased := tombstones{}, tombstones{}
	for _, t := range h.stones {
		switch {
		case t.Act == Erase:
			erased.apply(t)
		case h.dayAt(t.At) <= day:
			live.apply(t)
		}
	}
	for _, e := range h.entries {
		switch {
		case DayOf(e.Edition) > day || live.cover(e) || veil.Hides(e):
		case erased.cover(e):
			lost = append(lost, e.Seq)
		default:
			entries = append(entries, e)
		}
	}
	for _, e := range h.expired {
		if DayOf(e.Edition) <= day && !live.cover(e) && !veil.Hides(e) && !veil.MayHide(e) {
			lost = append(lost, e.Seq)
		}
	}
	return entries, live[h.key], lost
}

// DayOf returns the day, yyyymmdd, with which an edition's name begins.
func DayOf(edition string) string { return edition[:min(len(dayForm), len(edition))] }

// DayEditions returns the editions of a day in the order of publication.
func (s *Snapshot) DayEditions(ctx context.Context, day string) ([]Edition, error) {
	if len(day) != len(dayForm) { // a shorter text begins the names of many editions
		return nil, nil
	}
	editions, err := s.editionsNamed(ctx, day)
	if err != nil {
		return nil, fmt.Errorf("catalog: editions of %s: %w", day, err)
	}
	return slices.DeleteFunc(editions, func(e Edition) bool { return DayOf(e.Name) != day }), nil
}

// Over is how long after a day's end an edition may still be named by that day. See
// Snapshot.Complete.
const Over = 30 * time.Minute

// Complete reports whether all editions of a day are published, and since when that is certain. It
// is certain from the first edition of a later day on, or when Over has passed since the day's end
// in the catalog's zone. If a day ends while a publication's run is built, the publication gets a
// new name. Its version is appended within a third of Over or not at all.
func (s *Snapshot) Complete(ctx context.Context, day string) (since time.Time, complete bool, err error) {
	if end, err := s.DayEnd(day); err == nil {
		since = end.Add(Over).UTC()
		complete = !s.catalog.opt.Now().Before(since)
	}
	for e, err := range valuesOf[Edition](s.scan(ctx, tableEdition, tableEdition+day+"z")) {
		if err != nil {
			return since, false, fmt.Errorf("catalog: editions after %s: %w", day, err)
		}
		if !complete || e.Published.Before(since) {
			since = e.Published
		}
		return since, true, nil
	}
	return since, complete, nil
}
