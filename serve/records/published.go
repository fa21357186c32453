package records

import (
	"context"
	"fmt"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/account"
)

// Published returns up to limit segments that were published behind the number since of the change
// feed, whoever may see them, and the number up to which these are all. If since is negative, it
// returns the end of the feed only.
func (r *Records) Published(ctx context.Context, since int64, limit int) (segments []catalog.SegmentEntry, last int64, err error) {
	snap, err := r.archive.Catalog.PinWithin(ctx, r.archive.Lag)
	if err != nil {
		return nil, 0, fmt.Errorf("serve: %w", err)
	}
	defer snap.Release()
	if since < 0 {
		return nil, snap.Last(), nil
	}
	changes, last, err := snap.Changes(ctx, since, "", limit)
	if err != nil {
		return nil, since, fmt.Errorf("serve: %w", err)
	}
	for _, c := range changes {
		if c.Entry != nil {
			segments = append(segments, *c.Entry)
		}
	}
	return segments, last, nil
}

// Each calls f with each record of a published segment that the account sees, until f returns false.
// f must not change the cells.
func (r *Records) Each(ctx context.Context, a *account.Account, seg catalog.SegmentEntry, f func(*archive.Cell) bool) error {
	if !a.Covers(seg.Host) {
		return nil
	}
	v, err := r.archive.View(ctx, a)
	if err != nil {
		return err
	}
	defer v.Release()
	index, err := r.archive.Segments.Index(ctx, seg)
	if err != nil {
		return err
	}
	h := v.HostOf([]catalog.SegmentEntry{seg})
	for i := range index.Cells {
		if c := &index.Cells[i]; !h.Gone(seg, c.URL) && !f(c) {
			return nil
		}
	}
	return nil
}
