package tree

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sort"
	"strings"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/internal/cache"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// Of domains that the operator chooses, the latest version of every page is offered in volumes,
// too: /current/20261121/jp/00001.tar.gz and so on have the hosts' current.tar.gz as they were when
// the edition had been published. They do not change, and are there until the second next ones have
// been made, since it takes longer than a day to fetch all of jp. What is taken down leaves them.
//
// The length of a host's current.tar.gz is found by reading the indexes of all of its segments. A
// results.CurrentMaker has that done beside publication, and this file keeps the results in the
// store: for each volume a list, and once all are made, which hosts each volume has. It is derived,
// and can be deleted at any time. If a list does not have what an account sees of a host, because
// something was taken down or is hidden from it, the host's indexes are read when the volume is
// opened. What expires changes nothing: the segments that are needed stay.

const (
	dirCurrent = "current"

	// CurrentPrefix begins the keys of these objects: current/20261121/jp/00001.jsonl.gz and
	// current/20261121/jp/volumes.json.
	CurrentPrefix = "current/"

	currentVolumes = "volumes.json"
)

// Current says which hosts lie in each volume of a domain's latest versions. These are the versions
// that were the latest when the edition had been published.
type Current struct {
	Edition string    `json:"edition"`
	Domain  string    `json:"domain"` // a top-level domain, such as jp
	Made    time.Time `json:"made"`

	// Ends has the key of the last host of each volume. The last is empty: there is no bound.
	Ends []string `json:"ends"`
}

func (c Current) key(name string) string {
	return CurrentPrefix + c.Edition + "/" + c.Domain + "/" + name
}

func (c Current) list(volume string) string { return c.key(volume + ".jsonl.gz") }

// Same reports whether two are of the same domain and edition.
func (c Current) Same(as Current) bool { return c.Edition == as.Edition && c.Domain == as.Domain }

// StoredCurrents returns the stored volumes of the latest versions, in the order of the editions'
// names. begun are those whose Current is missing or damaged: only Edition and Domain are set.
func StoredCurrents(ctx context.Context, st store.Store) (complete, begun []Current, err error) {
	for info, err := range st.List(ctx, CurrentPrefix, "") {
		if err != nil {
			return nil, nil, fmt.Errorf("volumes of the latest versions: %w", err)
		}
		parts := strings.Split(strings.TrimPrefix(info.Key, CurrentPrefix), "/")
		if len(parts) != 3 {
			continue
		}
		c := Current{Edition: parts[0], Domain: parts[1]}
		if !slices.ContainsFunc(begun, c.Same) {
			begun = append(begun, c)
		}
		if parts[2] != currentVolumes {
			continue
		}
		data, err := store.ReadAll(ctx, st, info.Key, 0, -1)
		if err != nil && !errors.Is(err, store.ErrNotExist) {
			return nil, nil, fmt.Errorf("%s: %w", info.Key, err)
		}
		var read Current
		if err == nil && json.Unmarshal(data, &read) == nil && read.Same(c) {
			complete = append(complete, read)
		}
	}
	return complete, slices.DeleteFunc(begun, func(c Current) bool { return slices.ContainsFunc(complete, c.Same) }), nil
}

// DeleteCurrent deletes what is stored of volumes of the latest versions.
func DeleteCurrent(ctx context.Context, st store.Store, c Current) error {
	return c.deleteFrom(ctx, st, "")
}

// deleteFrom deletes c's lists from key on. It deletes the Current first, so that nobody opens a
// volume without its list.
func (c Current) deleteFrom(ctx context.Context, st store.Store, key string) error {
	if err := st.Delete(ctx, c.key(currentVolumes)); err != nil {
		return err
	}
	for info, err := range st.List(ctx, c.key(""), "") {
		if err == nil && info.Key >= key {
			err = st.Delete(ctx, info.Key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// currents returns all complete volumes of the latest versions. It caches them for TablesFreshFor.
func (t *Tree) currents(ctx context.Context) ([]Current, error) {
	key := fmt.Sprintf("volumes of the latest versions %d", time.Now().UnixNano()/int64(TablesFreshFor))
	return cache.GetOrCompute(ctx, t.opt.Archive.Memo, key, func(ctx context.Context) ([]Current, int64, error) {
		all, _, err := StoredCurrents(ctx, t.opt.Archive.Segments.Store)
		cost := int64(256)
		for _, c := range all {
			cost += 256 + 64*int64(len(c.Ends))
		}
		return all, cost, err
	})
}

// NewestCurrent returns the directory of a top-level domain's newest volumes of the latest
// versions, such as current/20261121/jp, and their edition. Both are empty if the account sees no
// such directory.
func (t *Tree) NewestCurrent(ctx context.Context, a *account.Account, domain string) (dir, edition string, err error) {
	all, err := t.currents(ctx)
	if err != nil {
		return "", "", err
	}
	var newest Current
	for _, c := range all {
		if c.Domain == domain && c.Made.After(newest.Made) {
			newest = c
		}
	}
	if newest.Edition == "" {
		return "", "", nil
	}
	dir = strings.TrimSuffix(newest.key(""), "/")
	switch _, err := t.Stat(ctx, a, dir); {
	case library.IsNotFound(err):
		return "", "", nil
	case err != nil:
		return "", "", err
	}
	return dir, newest.Edition, nil
}

// currentSources returns the sources of all complete volumes of the latest versions whose editions
// the catalog has.
func (f *finder) currentSources(ctx context.Context) (all []source, err error) {
	currents, err := f.tree.currents(ctx)
	for i := 0; i < len(currents) && err == nil; i++ {
		var ed catalog.Edition
		switch ed, err = f.view.Snap.EditionInfo(ctx, currents[i].Edition); {
		case errors.Is(err, catalog.ErrNotExist):
			err = nil
		case err == nil:
			all = append(all, currentSource(currents[i], ed))
		}
	}
	return all, err
}

func currentSource(c Current, ed catalog.Edition) source {
	return source{c.Edition, []catalog.Edition{ed}, c.Domain, &c}
}

// findCurrent finds a path below /current. It has a directory for each edition, which has one for
// each domain.
func (f *finder) findCurrent(ctx context.Context, name string) (*library.Entry, error) {
	edition, rest, _ := strings.Cut(name, "/")
	domain, file, deep := strings.Cut(rest, "/")
	all, err := f.currentSources(ctx)
	if err != nil {
		return nil, err
	}
	var found []source
	for _, of := range all {
		if edition != "" && of.name != edition || domain != "" && of.place != domain {
			continue
		}
		switch _, err := f.volumesDirectory(ctx, of); {
		case library.IsNotFound(err):
		case err != nil:
			return nil, err
		default:
			found = append(found, of)
		}
	}
	switch {
	case len(found) == 0:
		return nil, library.ErrNotFound
	case deep:
		if volume, table, ok := cutTable(file); ok {
			return f.findTable(ctx, found[0], volume, table)
		}
		return f.volumesFile(ctx, found[0], file)
	case domain != "":
		return f.volumesDirectory(ctx, found[0])
	case edition != "":
		return directoryOf(edition, found, func(of source) string { return of.place }), nil
	}
	return directoryOf(dirCurrent, found, func(of source) string { return of.name }), nil
}

// directoryOf returns a directory of directories, one for each name that entry returns.
func directoryOf(name string, found []source, entry func(source) string) *library.Entry {
	return library.Directory(name, found[len(found)-1].published(), func(_ context.Context, emit func(library.Node) error) error {
		last := ""
		for _, of := range found {
			if this := entry(of); this != last {
				last = this
				if err := emit(library.DirectoryNode(this, of.published())); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// currentSegments yields what a part's hosts had when the source's edition had been published.
func currentSegments(ctx context.Context, v *library.AccountView, of source, part span) iter.Seq2[catalog.SegmentEntry, error] {
	all := segmentsWithin(v.Scope.Under(of.place), part, func(after string) iter.Seq2[catalog.SegmentEntry, error] { return v.Snap.Entries(ctx, "", after) })
	return func(yield func(catalog.SegmentEntry, error) bool) {
		for seg, err := range all {
			if (err != nil || !seg.Published.After(of.published())) && !yield(seg, err) {
				return
			}
		}
	}
}

// measured returns what is known of the archives in a volume, by their keys. Archives that the list
// lacks are measured again, so a damaged or missing list costs only time.
func (t *Tree) measured(ctx context.Context, c Current, volume string) map[string]library.Measure {
	list, err := t.readMeasures(ctx, c, volume)
	if err != nil && !errors.Is(err, store.ErrNotExist) {
		t.warn(ctx, c.list(volume), err)
	}
	return list.byKey()
}

func (t *Tree) warn(ctx context.Context, object string, err error) {
	t.opt.Archive.Log.WarnContext(ctx, "the list of a volume of the latest versions cannot be read; its hosts are measured", "object", object, "err", err)
}

// measures is the list of a volume.
type measures struct {
	To  string            `json:"to"` // the key of the volume's last host
	All []library.Measure `json:"all"`
}

func (m measures) byKey() map[string]library.Measure {
	known := make(map[string]library.Measure, len(m.All))
	for _, one := range m.All {
		known[one.Key] = one
	}
	return known
}

func (t *Tree) readMeasures(ctx context.Context, c Current, volume string) (list measures, err error) {
	in, err := t.opt.Archive.Segments.Store.Open(ctx, c.list(volume), 0, -1)
	if err != nil {
		return measures{}, err
	}
	defer in.Close()
	unzipped, err := gzip.NewReader(in)
	if err == nil {
		err = json.NewDecoder(unzipped).Decode(&list)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, unzipped) // for the checksum
	}
	if err != nil {
		return measures{}, fmt.Errorf("%s: %w", c.list(volume), err)
	}
	return list, nil
}

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
