package catalog

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"
)

// Remove takes down all entries that the tombstones cover, published now or later. When it returns
// nil, every snapshot of this Catalog hides them, older snapshots too; other processes hide them
// from their next Pin on. Tombstones that are in force already are not recorded again, so Remove
// can be repeated.
func (c *Catalog) Remove(ctx context.Context, stones ...Tombstone) (Version, error) {
	return c.record(ctx, "remove", kindRemove, TakeDown, stones, notDown(stones))
}

// notDown returns a function that chooses the tombstones whose take-down is not in force.
func notDown(stones []Tombstone) func(*state) ([]Tombstone, error) {
	return func(head *state) ([]Tombstone, error) {
		return slices.DeleteFunc(slices.Clone(stones), head.tombstones.down), nil
	}
}

// Restore lifts the take-downs with a stone's host, edition, URL prefix, collection, robot and
// Since. It returns ErrNotExist if one of the take-downs is not in force. Take-downs and lifts
// remain on record; see Takedowns. Objects that Collect has deleted meanwhile do not come back.
func (c *Catalog) Restore(ctx context.Context, stones ...Tombstone) (Version, error) {
	return c.record(ctx, "restore", kindRestore, Lift, stones, func(head *state) ([]Tombstone, error) {
		for _, t := range stones {
			if !head.tombstones.down(t) {
				return nil, fmt.Errorf("host %s, edition %q, URL prefix %q, collection %q: no take-down of these is in force: %w", t.Host, t.Edition, t.URLPrefix, t.Collection, ErrNotExist)
			}
		}
		return slices.Clone(stones), nil
	})
}

// Tell records lifts for hosts and editions that another rule than a take-down has hidden until
// now. So the change feed shows them as lifted. It leaves out hosts and editions whose take-down is
// in force.
func (c *Catalog) Tell(ctx context.Context, stones ...Tombstone) (Version, error) {
	return c.record(ctx, "tell", kindRestore, Lift, stones, notDown(stones))
}

// record appends, as one version, the tombstones that choose selects for the head. Errors begin
// with what.
func (c *Catalog) record(ctx context.Context, what string, k kind, act Act, stones []Tombstone, choose func(*state) ([]Tombstone, error)) (Version, error) {
	for _, t := range stones {
		if err := checkKeyText("host", Key(t.Host)); err != nil {
			return Version{}, fmt.Errorf("%s: tombstone: %w", what, err)
		}
	}
	head, err := c.append(ctx, func(head *state) (*logRecord, error) {
		fresh, err := choose(head)
		if err != nil || len(fresh) == 0 {
			return nil, err
		}
		for i := range fresh {
			fresh[i].Act = act
		}
		return c.composeTombstones(ctx, k, head, fresh)
	})
	if err != nil {
		return Version{}, fmt.Errorf("%s: %w", what, err)
	}
	return head.version(), nil
}

func (c *Catalog) composeTombstones(ctx context.Context, k kind, head *state, stones []Tombstone) (*logRecord, error) {
	at := c.after(head)
	if !at.After(head.At) { // Alterations tells versions apart by their times
		at = head.At.Add(time.Millisecond)
	}
	rows := make(map[string]Tombstone, len(stones))
	for i, t := range stones {
		t.At = at
		rows[tableTombstone+Key(t.Host)+" "+seqKey(head.NextSeq+int64(i))] = t
	}
	return c.compose(ctx, head, k, at, func(w *runWriter) error {
		for _, key := range slices.Sorted(maps.Keys(rows)) {
			if err := w.put(key, rows[key]); err != nil {
				return err
			}
		}
		return nil
	})
}

// Takedowns returns all take-downs, lifts and erasures of one host, in the order of recording. If
// host is empty, it returns those of all hosts, host by host.
func (s *Snapshot) Takedowns(ctx context.Context, host string) ([]Tombstone, error) {
	key := ""
	if host != "" {
		key = Key(host)
	}
	runs, err := s.live()
	if err != nil {
		return nil, fmt.Errorf("catalog: take-downs: %w", err)
	}
	var all []Tombstone
	for t, err := range eachTombstone(ctx, runs, key) {
		if err != nil {
			return nil, fmt.Errorf("catalog: take-downs: %w", err)
		}
		all = append(all, t)
	}
	return all, nil
}

// erase records the erasure of all entries that the tombstones cover. It skips tombstones whose
// take-down is not in force, and erasures that are recorded already.
func (c *Catalog) erase(ctx context.Context, stones []Tombstone) error {
	_, err := c.record(ctx, "erase", kindErase, Erase, stones, func(head *state) ([]Tombstone, error) {
		return slices.DeleteFunc(slices.Clone(stones), func(t Tombstone) bool {
			recorded := slices.ContainsFunc(head.tombstones[Key(t.Host)], func(o Tombstone) bool {
				return o.Act == Erase && o.same(t) && o.Through >= t.Through
			})
			return recorded || !head.tombstones.down(t)
		}), nil
	})
	return err
}

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
