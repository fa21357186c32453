package catalog

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// RemoveRobot takes down all segments of a robot's batches that were published at since or later,
// and returns the number of hosts. Later segments of these hosts from the robot are taken down,
// too. It returns ErrNotExist if none of these segments is shown.
func (c *Catalog) RemoveRobot(ctx context.Context, robot string, since time.Time, reason, by string) (Version, int, error) {
	s, err := c.Pin(ctx)
	if err != nil {
		return Version{}, 0, err
	}
	defer s.Release()
	editions, err := s.Editions(ctx)
	if err != nil {
		return Version{}, 0, err
	}
	brought := func(yield func(SegmentEntry, error) bool) {
		for _, ed := range editions {
			if ed.Published.Before(since) {
				continue
			}
			for l, err := range s.Edition(ctx, ed.Name) {
				if (err != nil || l.Robot == robot) && !yield(l, err) {
					return
				}
			}
		}
	}
	none := fmt.Sprintf("robot %s: nothing that it brought since %s is shown", robot, since.UTC().Format(time.RFC3339))
	return c.removeHosts(ctx, none, brought, Tombstone{Robot: robot, Since: since, Reason: reason, By: by})
}

// RestoreRobot lifts the take-downs of RemoveRobot. It returns ErrNotExist if no such take-down is
// in force.
func (c *Catalog) RestoreRobot(ctx context.Context, robot, reason, by string) (Version, int, error) {
	none := fmt.Sprintf("robot %s: nothing that it brought is taken down", robot)
	return c.restoreHosts(ctx, none, reason, by, func(t Tombstone) bool { return t.Robot == robot })
}

// removeHosts records stone for the host of each entry, and returns the number of hosts. If there
// are no entries, it returns ErrNotExist, with the text none.
func (c *Catalog) removeHosts(ctx context.Context, none string, entries iter.Seq2[SegmentEntry, error], stone Tombstone) (Version, int, error) {
	var stones []Tombstone
	seen := make(map[string]bool)
	for l, err := range entries {
		if err != nil {
			return Version{}, 0, err
		}
		if !seen[l.Host] {
			seen[l.Host] = true
			stone.Host = l.Host
			stones = append(stones, stone)
		}
	}
	if len(stones) == 0 {
		return Version{}, 0, fmt.Errorf("%s: %w", none, ErrNotExist)
	}
	v, err := c.Remove(ctx, stones...)
	return v, len(stones), err
}

// restoreHosts lifts the take-downs that match, and returns their number. If no take-down matches,
// it returns ErrNotExist, with the text none.
func (c *Catalog) restoreHosts(ctx context.Context, none, reason, by string, match func(Tombstone) bool) (Version, int, error) {
	s, err := c.Pin(ctx)
	if err != nil {
		return Version{}, 0, err
	}
	defer s.Release()
	stones := s.taken(match)
	if len(stones) == 0 {
		return Version{}, 0, fmt.Errorf("%s: %w", none, ErrNotExist)
	}
	for i, t := range stones {
		stones[i] = Tombstone{Host: t.Host, Collection: t.Collection, Robot: t.Robot, Since: t.Since, Reason: reason, By: by}
	}
	v, err := c.Restore(ctx, stones...)
	return v, len(stones), err
}

// taken returns the take-downs in force that match.
func (s *Snapshot) taken(match func(Tombstone) bool) (stones []Tombstone) {
	for _, of := range s.catalog.current().tombstones {
		for _, t := range of {
			if t.Act == TakeDown && match(t) {
				stones = append(stones, t)
			}
		}
	}
	return stones
}
