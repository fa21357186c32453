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
	if !at.After(head.At) { // altered.go tells versions apart by their times
		at = head.At.Add(time.Millisecond)
	}
	rows := make(map[string]Tombstone, len(stones))
	for i, t := range stones {
		t.At = at
		rows[tableTombstone+Key(t.Host)+" "+seqKey(head.NextSeq+int64(i))] = t
	}
	return c.compose(ctx, head, k, at, int64(len(stones)), func(w *runWriter) error {
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
