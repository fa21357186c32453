package catalog

import (
	"context"
	"fmt"
	"slices"
	"time"
)

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
