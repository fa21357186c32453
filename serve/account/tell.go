package account

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"sheaf/archive/catalog"
	"sheaf/internal/db"
	"sheaf/internal/loop"
)

const (
	tellEvery = time.Minute
	// tellAfter is the time from the end of an embargo until the feed tells of it: by then it has
	// ended on the clocks of all processes.
	tellAfter = time.Minute
	// mostTold is the most hosts that the feed names when one embargo ends. If there are more,
	// followers of the feed begin anew instead.
	mostTold = 10_000
)

// errMany says that more hosts or editions than mostTold are no longer hidden.
var errMany = errors.New("too many to tell")

// Tell tells the change feed of a catalog what embargoes no longer hide, until ctx ends. If several
// processes call it, the feed may name a host more than once.
func (x *Rules) Tell(ctx context.Context, c *catalog.Catalog) error {
	tell := func(ctx context.Context) error { return x.TellNow(ctx, c) }
	return loop.Every(ctx, tellEvery, tell, func(err error) {
		x.log.ErrorContext(ctx, "the change feed does not tell of an embargo's end yet", "err", err)
	})
}

// TellNow tells the feed what is no longer hidden, because its embargo ended at least a minute ago.
func (x *Rules) TellNow(ctx context.Context, c *catalog.Catalog) error {
	rules, err := x.read(ctx)
	if err != nil {
		return err
	}
	now := x.Now().Add(-tellAfter)
	for _, r := range rules {
		to := r.since(now)
		if !r.Until.IsZero() && !now.Before(r.Until) {
			to = r.Until // and then it hides nothing any more
		}
		if r.Told.After(to.Add(dayLength)) { // by a clock that was ahead: it is hidden again, and told of again
			if _, err := db.Exec(ctx, x.db, `UPDATE access_rules SET told = ? WHERE id = ? AND told = ?`, db.Millis(to), r.ID, db.Millis(r.Told)); err != nil {
				return fmt.Errorf("access rule %d: %w", r.ID, err)
			}
			continue
		}
		if !to.After(r.Told) || r.Told.Equal(r.Until) && !r.Until.IsZero() {
			continue
		}
		stones, err := freed(ctx, c, &r, to)
		epoch := r.Epoch
		switch {
		case errors.Is(err, errMany):
			epoch++
		case err != nil:
			return fmt.Errorf("access rule %d: %w", r.ID, err)
		case len(stones) > 0:
			if _, err := c.Tell(ctx, stones...); err != nil {
				return fmt.Errorf("access rule %d: %w", r.ID, err)
			}
		}
		_, err = db.Exec(ctx, x.db, `UPDATE access_rules SET told = ?, epoch = ? WHERE id = ? AND told = ?`,
			db.Millis(to), epoch, r.ID, db.Millis(r.Told))
		if err != nil {
			return fmt.Errorf("access rule %d: %w", r.ID, err)
		}
	}
	_, err = x.read(ctx)
	return err
}

// freed returns, for the feed, the hosts whose segments a rule no longer hides. If the rule has
// Days, it returns the hosts' editions one by one.
func freed(ctx context.Context, c *catalog.Catalog, r *storedRules, to time.Time) ([]catalog.Tombstone, error) {
	s, err := c.Pin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	of := applied{Rule: r.Rule, since: r.Told}
	of.place, of.exact = r.place()
	var stones []catalog.Tombstone
	seen := make(map[catalog.Tombstone]bool)
	for seg, err := range published(ctx, s, of.place, r.Told, to) {
		if err != nil {
			return nil, err
		}
		if !of.names(&seg) || seg.Published.After(to) {
			continue
		}
		t := catalog.Tombstone{Host: seg.Host, By: "access", Reason: fmt.Sprintf("access rule %d: its embargo has ended", r.ID)}
		if r.Days > 0 {
			t.Edition = seg.Edition
		}
		if !seen[t] {
			seen[t] = true
			stones = append(stones, t)
		}
		if len(stones) > mostTold {
			return nil, errMany
		}
	}
	return stones, nil
}

// published yields the segments of hosts at and below a place, in editions published after the time
// from and up to the time to. It may also yield hosts beside the place (see KeyPrefix).
func published(ctx context.Context, s *catalog.Snapshot, place string, from, to time.Time) iter.Seq2[catalog.SegmentEntry, error] {
	return func(yield func(catalog.SegmentEntry, error) bool) {
		editions, err := s.Editions(ctx)
		if err != nil {
			yield(catalog.SegmentEntry{}, err)
			return
		}
		for _, ed := range editions {
			if !ed.Published.After(from) || ed.Published.After(to) {
				continue
			}
			for seg, err := range s.EditionUnder(ctx, ed.Name, KeyPrefix(place)) {
				if !yield(seg, err) {
					return
				}
			}
		}
	}
}
