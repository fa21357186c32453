package catalog

import (
	"context"
	"fmt"
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

// RemoveWhole takes down all that was published of stone.Collection, or of stone.Robot's batches at
// stone.Since or later. It records the stone for each host of which it takes something down, and
// returns the number of these hosts. Their later segments of the collection or from the robot are
// taken down, too. It returns ErrNotExist if nothing of the collection or the robot is shown.
func (c *Catalog) RemoveWhole(ctx context.Context, stone Tombstone) (Version, int, error) {
	s, err := c.Pin(ctx)
	if err != nil {
		return Version{}, 0, err
	}
	defer s.Release()
	editions, err := s.editionsOf(ctx, stone)
	if err != nil {
		return Version{}, 0, err
	}
	var stones []Tombstone
	seen := make(map[string]bool)
	for _, name := range editions {
		for l, err := range s.Edition(ctx, name) {
			if err != nil {
				return Version{}, 0, err
			}
			if stone.Host = l.Host; stone.covers(l) && !seen[l.Host] {
				seen[l.Host] = true
				stones = append(stones, stone)
			}
		}
	}
	if len(stones) == 0 {
		return Version{}, 0, fmt.Errorf("%s: nothing of it is shown: %w", stone.whole(), ErrNotExist)
	}
	v, err := c.Remove(ctx, stones...)
	return v, len(stones), err
}

// editionsOf returns the editions that may have something of the stone's collection or robot.
func (s *Snapshot) editionsOf(ctx context.Context, stone Tombstone) (names []string, err error) {
	if stone.Collection != "" {
		all, err := Collections(ctx, s)
		if i := slices.IndexFunc(all, func(of ImportedCollection) bool { return of.Name == stone.Collection }); i >= 0 {
			names = all[i].Editions
		}
		return names, err
	}
	editions, err := s.Editions(ctx)
	for _, e := range editions {
		if !e.Published.Before(stone.Since) {
			names = append(names, e.Name)
		}
	}
	return names, err
}

// RestoreWhole lifts the take-downs that RemoveWhole has recorded for stone.Collection or
// stone.Robot, whatever their Since, and returns their number. It returns ErrNotExist if none is in
// force.
func (c *Catalog) RestoreWhole(ctx context.Context, stone Tombstone) (Version, int, error) {
	s, err := c.Pin(ctx)
	if err != nil {
		return Version{}, 0, err
	}
	defer s.Release()
	stones := s.taken(func(t Tombstone) bool { return t.Collection == stone.Collection && t.Robot == stone.Robot })
	if len(stones) == 0 {
		return Version{}, 0, fmt.Errorf("%s: no take-down of it is in force: %w", stone.whole(), ErrNotExist)
	}
	for i, t := range stones {
		stones[i] = Tombstone{Host: t.Host, Collection: t.Collection, Robot: t.Robot, Since: t.Since, Reason: stone.Reason, By: stone.By}
	}
	v, err := c.Restore(ctx, stones...)
	return v, len(stones), err
}

// whole names the collection or the robot of a stone for RemoveWhole.
func (t Tombstone) whole() string {
	if t.Collection != "" {
		return "collection " + t.Collection
	}
	if t.Since.IsZero() {
		return "robot " + t.Robot
	}
	return "robot " + t.Robot + " since " + t.Since.UTC().Format(time.RFC3339)
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
