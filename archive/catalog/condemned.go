package catalog

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"sheaf/archive/store"
)

// listPrefix begins the keys of the lists of condemned objects.
const listPrefix = "gc/"

// list is one list of condemned objects, the JSON object gc/<time>-<random>.
type list struct {
	Format  int         `json:"format"`
	At      time.Time   `json:"at"`
	Version int64       `json:"version"` // of the catalog, in which nothing referred to them
	Objects []Candidate `json:"objects"`
}

// condemn puts what was found without need in a list of its own.
func (k *collector) condemn(ctx context.Context) error {
	l := list{Format: 1, At: k.now, Version: k.head.N, Objects: k.fresh}
	k.fresh = nil
	if k.opt.DryRun || len(l.Objects) == 0 {
		return nil
	}
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	key := listPrefix + k.now.Format("20060102T150405Z") + "-" + strings.ToLower(rand.Text())
	return k.Catalog.opt.Boundary.Write(writeCondemn, func() error {
		return k.lib.store.Put(ctx, key, bytes.NewReader(data), int64(len(data)))
	})
}

// readLists reads what is condemned. A list is due when the delay has passed by
// its writer's clock and by the store's.
func (k *collector) readLists(ctx context.Context) error {
	for info, err := range k.lib.store.List(ctx, listPrefix, "") {
		if err != nil {
			return err
		}
		data, err := store.ReadAll(ctx, k.lib.store, info.Key, 0, -1)
		if errors.Is(err, store.ErrNotExist) {
			continue // done with by another collector
		}
		if err != nil {
			return err
		}
		var l list
		if err := json.Unmarshal(data, &l); err != nil || l.Format != 1 {
			return fmt.Errorf("%s is no list of condemned objects of format 1: %w", info.Key, errors.Join(err, ErrCorrupt))
		}
		if err := k.checkHead(ctx, l.Version); err != nil {
			return fmt.Errorf("%s: %w", info.Key, err)
		}
		mark := markWait
		if before := k.now.Add(-k.opt.Delay); !l.At.After(before) && !info.Modified.After(before) {
			mark = markDue
			k.due = append(k.due, info.Key)
		}
		for _, d := range l.Objects {
			if err := store.CheckKey(d.Key); err != nil {
				return fmt.Errorf("%s: %w", info.Key, err)
			}
			if err := k.marks.Add(fmt.Appendf(nil, "%s %s\n", d.Key, mark)); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkHead fails where the catalog ends before a version that a list knew: then
// versions are lost, and what they published looks like what nothing needs.
func (k *collector) checkHead(ctx context.Context, known int64) error {
	if known <= k.head.N {
		return nil
	}
	head, err := k.refresh(ctx) // another collector may be ahead
	if err != nil || head.N >= known {
		return err
	}
	return fmt.Errorf("knows version %d, but the catalog ends at %d: %w", known, head.N, ErrCorrupt)
}

// dropLists deletes the lists of which all is done: what they condemned is
// deleted, or found to be needed.
func (k *collector) dropLists(ctx context.Context) error {
	if k.opt.DryRun {
		return nil
	}
	for _, key := range k.due {
		if err := k.Catalog.opt.Boundary.Write(writeCollected, func() error { return k.lib.store.Delete(ctx, key) }); err != nil {
			return err
		}
	}
	return nil
}
