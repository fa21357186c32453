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

// listPrefix begins the keys of the lists of marked objects.
const listPrefix = "gc/"

// list is one list of marked objects, the JSON object gc/<time>-<random>.
type list struct {
	Format  int         `json:"format"`
	At      time.Time   `json:"at"`
	Version int64       `json:"version"` // version of the catalog in which nothing needed the objects
	Objects []Candidate `json:"objects"`
}

// perList limits the objects of one list.
const perList = 10_000

// mark says whether a list in the store has an object, and whether that list is old enough. An
// object that nothing needs is put on a list. It is deleted when the list is old enough and still
// nothing needs the object. While a collection goes on, marks are texts of rows "<object> <text>".
type mark string

const (
	unmarked mark = ""
	markDue  mark = "due"  // a list that is old enough has the object
	markWait mark = "wait" // only younger lists have the object
)

// readLists adds the marks of the lists. A list is old enough if it was made before g.old, both by
// its writer's clock and by the store's.
func (g *collector) readLists(ctx context.Context) error {
	st := g.catalog.lib.store
	for info, err := range st.List(ctx, listPrefix, "") {
		if err != nil {
			return err
		}
		data, err := store.ReadAll(ctx, st, info.Key, 0, -1)
		if errors.Is(err, store.ErrNotExist) {
			continue // another collection has finished it
		}
		if err != nil {
			return err
		}
		var l list
		if err := json.Unmarshal(data, &l); err != nil || l.Format != 1 {
			return fmt.Errorf("%s is not a list of marked objects of format 1: %w", info.Key, errors.Join(err, ErrCorrupt))
		}
		if err := g.checkNotBehind(ctx, l.Version); err != nil {
			return fmt.Errorf("%s: %w", info.Key, err)
		}
		of := markWait
		if !l.At.After(g.old) && !info.Modified.After(g.old) {
			of = markDue
			g.due = append(g.due, info.Key)
		}
		for _, c := range l.Objects {
			if err := store.CheckKey(c.Key); err != nil {
				return fmt.Errorf("%s: %w", info.Key, err)
			}
			if err := g.sorter.Add(fmt.Appendf(nil, "%s %s\n", c.Key, of)); err != nil {
				return err
			}
		}
	}
	return nil
}

// mark marks an object, in the list that putMarks stores next.
func (g *collector) mark(ctx context.Context, c Candidate) error {
	if g.fresh = append(g.fresh, c); len(g.fresh) < perList {
		return nil
	}
	return g.putMarks(ctx)
}

// putMarks stores a list of the objects that were marked since the previous list.
func (g *collector) putMarks(ctx context.Context) error {
	l := list{Format: 1, At: g.now, Version: g.head.N, Objects: g.fresh}
	g.fresh = nil
	if g.opt.DryRun || len(l.Objects) == 0 {
		return nil
	}
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	key := listPrefix + g.now.Format("20060102T150405Z") + "-" + strings.ToLower(rand.Text())
	return g.catalog.opt.Boundary.Write(writeCondemn, func() error {
		return g.catalog.lib.store.Put(ctx, key, bytes.NewReader(data), int64(len(data)))
	})
}

// dropLists deletes the lists that are old enough. Call it when each of their objects is deleted,
// or was found to be needed.
func (g *collector) dropLists(ctx context.Context) error {
	if g.opt.DryRun {
		return nil
	}
	for _, key := range g.due {
		if err := g.catalog.opt.Boundary.Write(writeCollected, func() error { return g.catalog.lib.store.Delete(ctx, key) }); err != nil {
			return err
		}
	}
	return nil
}
