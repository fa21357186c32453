package catalog

import (
	"context"
	"fmt"
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
	var stones []Tombstone
	seen := make(map[string]bool)
	for _, ed := range editions {
		if ed.Published.Before(since) {
			continue
		}
		for l, err := range s.EditionUnder(ctx, ed.Name, "") {
			if err != nil {
				return Version{}, 0, err
			}
			if l.Robot == robot && !seen[l.Host] {
				seen[l.Host] = true
				stones = append(stones, Tombstone{Host: l.Host, Robot: robot, Since: since, Reason: reason, By: by})
			}
		}
	}
	if len(stones) == 0 {
		return Version{}, 0, fmt.Errorf("robot %s: nothing that it brought since %s is shown: %w", robot, since.UTC().Format(time.RFC3339), ErrNotExist)
	}
	v, err := c.Remove(ctx, stones...)
	return v, len(stones), err
}

// RestoreRobot lifts the take-downs of RemoveRobot. It returns ErrNotExist if no such take-down is
// in force.
func (c *Catalog) RestoreRobot(ctx context.Context, robot, reason, by string) (Version, int, error) {
	s, err := c.Pin(ctx)
	if err != nil {
		return Version{}, 0, err
	}
	defer s.Release()
	var stones []Tombstone
	for _, of := range s.catalog.current().tombstones {
		for _, t := range of {
			if t.Act == TakeDown && t.Robot == robot {
				stones = append(stones, Tombstone{Host: t.Host, Robot: robot, Since: t.Since, Reason: reason, By: by})
			}
		}
	}
	if len(stones) == 0 {
		return Version{}, 0, fmt.Errorf("robot %s: nothing that it brought is taken down: %w", robot, ErrNotExist)
	}
	v, err := c.Restore(ctx, stones...)
	return v, len(stones), err
}
