package tree

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// MakeCurrent makes and stores the lists of volumes of a domain's latest versions, as an account
// sees them. It goes on where an earlier call ended. Hosts of which nothing was published since an
// earlier Current cost little: its lists have them. After each volume it calls between with the
// time that the volume took.
//
// It must not be called concurrently for the same domain and edition.
func (t *Tree) MakeCurrent(ctx context.Context, a *account.Account, edition, domain string, earlier Current, between func(context.Context, time.Duration) error) (Current, error) {
	m := &currentMaker{tree: t, account: a, made: Current{Edition: edition, Domain: domain}, earlier: earlier, read: -1}
	if err := m.resume(ctx); err != nil {
		return m.made, err
	}
	for more := true; more; {
		begun := time.Now()
		var err error
		if more, err = m.volume(ctx); err != nil {
			return m.made, err
		}
		if err := between(ctx, time.Since(begun)); err != nil {
			return m.made, err
		}
	}
	if n := len(m.made.Ends); n > 0 {
		m.made.Ends[n-1] = ""
	}
	m.made.Made = time.Now().UTC()
	data, err := json.Marshal(m.made)
	if err != nil {
		return m.made, err
	}
	return m.made, t.opt.Archive.Segments.Store.Put(ctx, m.made.key(currentVolumes), bytes.NewReader(data), int64(len(data)))
}

// currentMaker makes the lists of volumes of the latest versions.
type currentMaker struct {
	tree    *Tree
	account *account.Account
	made    Current // so far

	earlier Current
	read    int                        // the number of the earlier volume in known; -1: none yet
	known   map[string]library.Measure // in the list of that volume
}

// resume finds the lists that were made before. It deletes all lists from the first missing or
// damaged one on: a kill in the middle of a deletion leaves the last lists.
func (m *currentMaker) resume(ctx context.Context) error {
	for {
		next := numbered(len(m.made.Ends) + 1)
		list, err := m.tree.readMeasures(ctx, m.made, next)
		if err == nil {
			m.made.Ends = append(m.made.Ends, list.To)
			continue
		}
		if !errors.Is(err, store.ErrNotExist) {
			m.tree.warn(ctx, m.made.list(next), err)
		}
		return m.made.deleteFrom(ctx, m.tree.opt.Archive.Segments.Store, m.made.list(next))
	}
}

// volume makes the list of the next volume, and reports whether there may be more. Its view of the
// catalog is its own: a version is not held for longer.
func (m *currentMaker) volume(ctx context.Context) (more bool, err error) {
	v, err := m.tree.opt.Archive.View(ctx, m.account)
	if err != nil {
		return false, err
	}
	defer v.Release()
	ed, err := v.Snap.EditionInfo(ctx, m.made.Edition)
	if err != nil {
		return false, err
	}
	var list measures
	size, at := int64(0), span{}
	if n := len(m.made.Ends); n > 0 {
		at.from = m.made.Ends[n-1]
	}
	for h, err := range v.HostsOf(currentSource(m.made, ed).segments(ctx, v, part{span: at})) {
		if err != nil {
			return false, err
		}
		key := catalog.Key(h.Name)
		m.load(ctx, key)
		_, one, err := h.Named(library.Current).Measure(ctx, m.known)
		if err != nil {
			return false, fmt.Errorf("host %s: %w", h.Name, err)
		}
		size += slices.Max(one.Sizes[:])
		if n := len(list.All); n > 0 && size > m.tree.opt.VolumeBytes || n == volumeHosts {
			return true, m.put(ctx, list)
		}
		list.To, list.All = key, append(list.All, one)
	}
	if len(list.All) == 0 {
		return false, nil
	}
	return false, m.put(ctx, list)
}

// load reads the earlier list that may have a host.
func (m *currentMaker) load(ctx context.Context, key string) {
	ends := m.earlier.Ends
	i := sort.Search(len(ends), func(i int) bool { return ends[i] == "" || strings.Compare(ends[i], key) >= 0 })
	if i == m.read || i == len(ends) {
		return
	}
	m.read, m.known = i, m.tree.measured(ctx, m.earlier, numbered(i+1))
}

// put stores the list of the next volume.
func (m *currentMaker) put(ctx context.Context, list measures) error {
	var zipped bytes.Buffer
	out := gzip.NewWriter(&zipped)
	if err := errors.Join(json.NewEncoder(out).Encode(list), out.Close()); err != nil {
		return err
	}
	name := m.made.list(numbered(len(m.made.Ends) + 1))
	if err := m.tree.opt.Archive.Segments.Store.Put(ctx, name, &zipped, int64(zipped.Len())); err != nil {
		return err
	}
	m.made.Ends = append(m.made.Ends, list.To)
	return nil
}
