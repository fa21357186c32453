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

	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
	"sheaf/internal/files"
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

// mark says whether a list in the store has an object, and whether that list is old enough.
type mark string

const (
	unmarked mark = ""
	markDue  mark = "due"  // a list that is old enough has the object
	markWait mark = "wait" // only younger lists have the object
)

// marks are the lists in the store. An object that nothing needs is put on a list. It is deleted
// when the list is old enough and still nothing needs the object.
type marks struct {
	store    store.Store
	boundary files.Boundary
	now      time.Time
	version  int64 // of the catalog that is read
	dryRun   bool  // writes nothing

	sorter *sortedrun.Sorter // rows "<object> <mark>"
	rows   *sortedrun.Merged // the rows of sorter that were not read yet
	due    []string          // keys of the lists that are old enough
	fresh  []Candidate       // to go into the next list
}

// read reads the lists. A list is due if it was made before the given time, both by its writer's
// clock and by the store's. check returns an error if the catalog cannot have the version that a
// list names.
func (m *marks) read(ctx context.Context, before time.Time, check func(version int64) error) (err error) {
	for info, err := range m.store.List(ctx, listPrefix, "") {
		if err != nil {
			return err
		}
		data, err := store.ReadAll(ctx, m.store, info.Key, 0, -1)
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
		if err := check(l.Version); err != nil {
			return fmt.Errorf("%s: %w", info.Key, err)
		}
		of := markWait
		if !l.At.After(before) && !info.Modified.After(before) {
			of = markDue
			m.due = append(m.due, info.Key)
		}
		for _, c := range l.Objects {
			if err := store.CheckKey(c.Key); err != nil {
				return fmt.Errorf("%s: %w", info.Key, err)
			}
			if err := m.sorter.Add(fmt.Appendf(nil, "%s %s\n", c.Key, of)); err != nil {
				return err
			}
		}
	}
	m.rows, err = m.sorter.Rows(ctx)
	return err
}

// of returns an object's mark. Call it for objects in the order of their keys.
func (m *marks) of(ctx context.Context, key string) (mark, error) {
	all, err := takeKey(ctx, m.rows, key)
	if err != nil || len(all) == 0 {
		return unmarked, err
	}
	return mark(all[0]), nil // "due" is before "wait"
}

// add marks an object, in the list that put stores next.
func (m *marks) add(ctx context.Context, c Candidate) error {
	if m.fresh = append(m.fresh, c); len(m.fresh) < perList {
		return nil
	}
	return m.put(ctx)
}

// put stores a list of the objects that were added since the previous list.
func (m *marks) put(ctx context.Context) error {
	l := list{Format: 1, At: m.now, Version: m.version, Objects: m.fresh}
	m.fresh = nil
	if m.dryRun || len(l.Objects) == 0 {
		return nil
	}
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	key := listPrefix + m.now.Format("20060102T150405Z") + "-" + strings.ToLower(rand.Text())
	return m.boundary.Write(writeCondemn, func() error {
		return m.store.Put(ctx, key, bytes.NewReader(data), int64(len(data)))
	})
}

// drop deletes the lists that are due. Call it when each of their objects is deleted, or was found
// to be needed.
func (m *marks) drop(ctx context.Context) error {
	if m.dryRun {
		return nil
	}
	for _, key := range m.due {
		if err := m.boundary.Write(writeCollected, func() error { return m.store.Delete(ctx, key) }); err != nil {
			return err
		}
	}
	return nil
}

// takeKey skips all rows "<key> <text>" up to a key's last row, and returns the different texts of
// that key, in order.
func takeKey(ctx context.Context, r *sortedrun.Merged, key string) (texts []string, err error) {
	for r.Row() != nil {
		at, text, _ := strings.Cut(string(r.Row()), " ")
		if at > key {
			break
		}
		if at == key && (len(texts) == 0 || texts[len(texts)-1] != text) {
			texts = append(texts, text)
		}
		if err := r.Next(ctx); err != nil {
			return nil, err
		}
	}
	return texts, nil
}
