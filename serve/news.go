package serve

import (
	"context"
	"fmt"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/account"
)

// Published gives up to limit segments that were published behind the number since of
// the change feed, whoever may see them, and the number up to which these are all. A negative since is
// the end of the feed.
func (l *Library) Published(ctx context.Context, since int64, limit int) (lines []catalog.SegmentEntry, last int64, err error) {
	snap, err := l.Catalog.PinWithin(ctx, l.Lag)
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
			lines = append(lines, *c.Entry)
		}
	}
	return lines, last, nil
}

// Records calls do for each record of a published segment that the account may see, until it
// returns false. The cells are not to be changed.
func (l *Library) Records(ctx context.Context, a *account.Account, line catalog.SegmentEntry, do func(*archive.Cell) bool) error {
	v, err := l.visit(ctx, a)
	if err != nil {
		return err
	}
	defer v.snap.Release()
	place := archive.HostPath(line.Host)
	if !v.scope.Holds(place) {
		return nil
	}
	index, err := l.index(ctx, line)
	if err != nil {
		return err
	}
	h := v.hostOf(line.Host, place, []catalog.SegmentEntry{line})
	for i := range index.Cells {
		if c := &index.Cells[i]; !h.gone(line, c.URL) && !do(c) {
			return nil
		}
	}
	return nil
}
