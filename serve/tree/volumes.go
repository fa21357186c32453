package tree

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"sheaf/archive/catalog"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// What the editions of a day brought of a domain is also offered in volumes. A reader who wants all
// of jp fetches a few large files instead of two for each of a million hosts. Where a volume ends
// depends on what these editions and those before them brought of the domain, and on nothing that
// happens later or that an account may see. So volumes keep their numbers, while the day's editions
// arrive, too. What is taken down, has expired or is outside of the account's scope is not in its
// volume. A volume of which nothing is left is not there. days.go says which volume has what, and
// current.go has volumes of the latest version of every page.

// source is what volumes are made of: what the editions of a day brought of a domain or, if current
// is set, the latest version of every page of the domain when the one edition had been published.
type source struct {
	name     string            // of the day or, if current is set, of the edition
	editions []catalog.Edition // in the order of publication; at least one
	place    string            // of the domain in the tree, such as "jp/ac"
	current  *Current
}

// part is what one volume has of a source: hosts, and the editions that brought them. There is more
// than one edition only if they brought little.
type part struct {
	span
	editions []catalog.Edition // in the order of publication, as in the source
}

// volumeHosts is how many hosts a volume has at most. An open volume holds its hosts in memory.
const volumeHosts = 10_000

// volumesFile returns a file of a domain's volumes: of one volume, or the list of all of their
// files.
func (f *finder) volumesFile(ctx context.Context, of source, name string) (*library.Entry, error) {
	if name == library.Manifest {
		return f.volumesManifest(ctx, of)
	}
	volume, suffix, ok := library.CutVolume(name)
	if !ok {
		return nil, library.ErrNotFound
	}
	part, err := pick(volume, func() ([]part, error) { return f.volumeParts(ctx, of) })
	if err != nil {
		return nil, err
	}
	v, err := f.volume(ctx, of, part, volume)
	if err != nil {
		return nil, err
	}
	if v.Empty() {
		return nil, library.ErrNotFound
	}
	return v.File(ctx, volume, suffix)
}

// volumesDirectory returns the directory of a domain's volumes. It fails with library.ErrNotFound
// if they have nothing, and nothing of a day was withdrawn or has expired.
func (f *finder) volumesDirectory(ctx context.Context, of source) (*library.Entry, error) {
	dir := library.Directory(path.Base(of.place), of.published(), func(ctx context.Context, emit func(library.Node) error) error {
		return f.listVolumes(ctx, of, emit)
	})
	for i, ed := range of.editions {
		if of.current == nil && catalog.DayOf(ed.Name) != of.name {
			break // nothing was published on the day
		}
		for _, err := range of.segments(ctx, f.view, part{editions: of.editions[i : i+1]}) {
			return dir, err
		}
	}
	if of.current != nil {
		return nil, library.ErrNotFound
	}
	if err := f.withdrew(ctx, of); !library.IsNotFound(err) {
		return dir, err
	}
	return dir, f.expired(ctx, of)
}

// findTable finds a table of what a volume has, if one was made of it as the account sees it.
func (f *finder) findTable(ctx context.Context, of source, volume, name string) (*library.Entry, error) {
	part, err := pick(volume, func() ([]part, error) { return f.volumeParts(ctx, of) })
	if err != nil {
		return nil, err
	}
	_, table, err := f.tableOf(ctx, of, part, volume, name)
	if err == nil && table == nil {
		err = library.ErrNotFound
	}
	return table, err
}

// tableOf returns the table called name among those that tablesOf returns; nil if it is not there.
func (f *finder) tableOf(ctx context.Context, of source, part part, volume, name string) (*volumeFiles, *library.Entry, error) {
	v, all, err := f.tablesOf(ctx, of, part, volume)
	if i := slices.IndexFunc(all, func(e *library.Entry) bool { return e.Name == volume+"."+name }); i >= 0 {
		return v, all[i], err
	}
	return v, nil, err
}

// tablesOf returns a volume's files, and the tables that were made of it as the account sees it.
func (f *finder) tablesOf(ctx context.Context, of source, part part, volume string) (v *volumeFiles, tables []*library.Entry, err error) {
	if v, err = f.volumeFiles(ctx, of, part, volume); err != nil {
		return nil, nil, err
	}
	stored, err := f.tree.volumeTables(ctx, of.tables(), of.place)
	own := slices.DeleteFunc(slices.Clone(stored), func(t VolumeTable) bool { return t.Volume != volume || t.Digest != v.digest })
	// For a while texts of an older extraction lie beside the newest.
	slices.SortStableFunc(own, func(a, b VolumeTable) int { return cmp.Or(strings.Compare(a.Name, b.Name), b.Version-a.Version) })
	for _, t := range slices.CompactFunc(own, func(a, b VolumeTable) bool { return a.Name == b.Name }) {
		tables = append(tables, t.file(f.tree.opt.Archive.Segments.Store, v.modified))
	}
	return v, tables, err
}

// tables returns the folder in the store with the tables of the source's volumes: see TablesPrefix.
func (s source) tables() string {
	if s.current != nil {
		return currentTables + s.name
	}
	return s.name
}

// volumesManifest returns the list of the files of a domain's volumes. A day's list begins with a
// line about the day.
func (f *finder) volumesManifest(ctx context.Context, of source) (*library.Entry, error) {
	var list, day bytes.Buffer
	lines, last, edition := json.NewEncoder(&list), time.Time{}, ""
	if of.current != nil {
		edition = of.name
	}
	err := f.eachVolumeFile(ctx, of, func(n library.Node) error {
		if n.Modified.After(last) {
			last = n.Modified
		}
		return lines.Encode(library.ManifestLine{Path: n.Name, Edition: edition, Size: n.Size, SHA256: n.SHA256, ETag: n.ETag, Modified: n.Modified})
	})
	if err != nil {
		return nil, err
	}
	if list.Len() == 0 {
		if _, err := f.volumesDirectory(ctx, of); err != nil || of.current != nil {
			return nil, cmp.Or(err, library.ErrNotFound)
		}
	}
	if of.current == nil {
		since, complete, err := f.view.Snap.Complete(ctx, of.name)
		if err != nil {
			return nil, err
		}
		if complete && since.After(last) {
			last = since
		}
		if err := json.NewEncoder(&day).Encode(library.DayLine{Day: of.name, Complete: complete}); err != nil {
			return nil, err
		}
	}
	return library.Text(library.Manifest, "application/x-ndjson", last, append(day.Bytes(), list.Bytes()...)), nil
}

// listVolumes lists the files of a domain's volumes.
func (f *finder) listVolumes(ctx context.Context, of source, emit func(library.Node) error) error {
	if err := f.eachVolumeFile(ctx, of, emit); err != nil {
		return err
	}
	e, err := f.volumesManifest(ctx, of)
	if err != nil {
		return err
	}
	return emit(e.Node)
}

// eachVolumeFile calls emit with the files of changes, then with each volume's files and tables.
func (f *finder) eachVolumeFile(ctx context.Context, of source, emit func(library.Node) error) error {
	parts, err := f.volumeParts(ctx, of)
	if err != nil {
		return err
	}
	made, err := f.madeChanges(ctx, of)
	if err != nil {
		return err
	}
	for _, n := range made {
		if err := emit(n); err != nil {
			return err
		}
	}
	for i, part := range parts {
		v, tables, err := f.tablesOf(ctx, of, part, numbered(i+1))
		if err != nil {
			return err
		}
		nodes := slices.Clone(v.nodes)
		for _, t := range tables {
			nodes = append(nodes, t.Node)
		}
		for _, n := range nodes {
			if err := emit(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// VolumeOf is a volume of a domain, for a day or for the latest versions, in one version of the
// catalog.
type VolumeOf struct {
	Domain, Name string    // such as jp and 00001
	Modified     time.Time // when something of it was last published, taken down or shown again
	Seen         string    // what access rules hide from the account; "": nothing
	Make         func(context.Context) (*library.Volume, error)
}

// Newest returns the newest edition's name, "" before the first, and a key of what an account sees.
// While that key is the same, so is the tree.
func (t *Tree) Newest(ctx context.Context, a *account.Account) (edition, sees string, err error) {
	v, err := t.opt.Archive.View(ctx, a)
	if err != nil {
		return "", "", err
	}
	defer v.Release()
	all, err := v.Snap.Editions(ctx)
	if len(all) > 0 {
		edition = all[len(all)-1].Name
	}
	return edition, fmt.Sprintf("%d %s", v.Snap.Version(), v.Seen()), err
}

// Volumes calls each with the volumes that an account sees in one version of the catalog, and that
// have their tables in folder: those of a day's domains or, if it is one of CurrentFolders, of the
// latest versions. It does not make them.
func (t *Tree) Volumes(ctx context.Context, a *account.Account, folder string, each func(VolumeOf) error) error {
	v, err := t.opt.Archive.View(ctx, a)
	if err != nil {
		return err
	}
	defer v.Release()
	f := &finder{t, v}
	sources, err := f.sources(ctx, folder)
	if err != nil {
		return err
	}
	for _, from := range sources {
		parts, err := f.volumeParts(ctx, from)
		if err != nil {
			return err
		}
		for i, part := range parts {
			modified := from.modified(v, part).Truncate(time.Millisecond)
			of := VolumeOf{Domain: from.place, Name: numbered(i + 1), Modified: modified, Seen: v.Veil.State()}
			of.Make = func(ctx context.Context) (*library.Volume, error) { return t.makeVolume(ctx, v, from, part, of.Name) }
			if err := each(of); err != nil {
				return err
			}
		}
	}
	return nil
}

// sources returns the sources of the volumes that have their tables in a folder.
func (f *finder) sources(ctx context.Context, folder string) (of []source, err error) {
	if strings.HasPrefix(folder, currentTables) {
		all, err := f.currentSources(ctx)
		return slices.DeleteFunc(all, func(s source) bool { return s.tables() != folder }), err
	}
	editions, err := f.view.Snap.DayEditions(ctx, folder)
	if err != nil || len(editions) == 0 {
		return nil, err
	}
	err = f.listDomains(ctx, folder, editions, func(domain library.Node) error {
		of = append(of, source{name: folder, editions: editions, place: domain.Name})
		return nil
	})
	return of, err
}

// volume returns what the account sees of a volume. It costs some microseconds a host.
func (f *finder) volume(ctx context.Context, of source, part part, name string) (*library.Volume, error) {
	key := f.volumeKey("volume", of, part)
	return library.Shared(ctx, f.view, key, func(ctx context.Context, v *library.AccountView) (*library.Volume, int64, error) {
		made, err := f.tree.makeVolume(ctx, v, of, part, name)
		if err != nil {
			return nil, 0, err
		}
		return made, made.Held(), nil
	})
}

// volumeFiles caches what a listing shows of a volume.
type volumeFiles struct {
	digest   string // library.Volume.Digest
	modified time.Time
	nodes    []library.Node // none if the account sees nothing of it
}

// volumeFiles describes the files of a volume. Nothing else of the volume is kept.
func (f *finder) volumeFiles(ctx context.Context, of source, part part, name string) (*volumeFiles, error) {
	key := f.volumeKey("volume files", of, part)
	return library.Shared(ctx, f.view, key, func(ctx context.Context, v *library.AccountView) (*volumeFiles, int64, error) {
		made, err := f.tree.makeVolume(ctx, v, of, part, name)
		if err != nil || made.Empty() {
			return new(volumeFiles), 256, err
		}
		files := &volumeFiles{digest: made.Digest(), modified: made.Modified()}
		err = made.Files(ctx, name, func(e *library.Entry) error {
			files.nodes = append(files.nodes, e.Node)
			return nil
		})
		return files, 1024, err
	})
}

func (f *finder) volumeKey(what string, of source, part part) string {
	last := part.editions[len(part.editions)-1]
	return fmt.Sprintf("%s %d %q %q %t %q %q %q", what, f.view.Snap.Withdrawals(), of.name, of.place, of.current != nil, part.span, part.editions[0].Name, last.Name)
}

func (t *Tree) makeVolume(ctx context.Context, v *library.AccountView, of source, part part, name string) (*library.Volume, error) {
	var known map[string]library.Measure
	if of.current != nil {
		known = t.measured(ctx, *of.current, name)
	}
	made := library.NewVolume(v.Archive, of.modified(v, part))
	for h, err := range v.HostsOf(of.segments(ctx, v, part)) {
		if err != nil {
			return nil, err
		}
		a, m, err := h.Named(of.base(h)).Measure(ctx, known)
		if err != nil {
			return nil, err
		}
		made.Add(a, m)
	}
	return made, nil
}

// base returns the beginning of the names of a host's archives in a volume.
func (s source) base(h *library.Host) string {
	first, last := h.Segments[0].Edition, h.Segments[len(h.Segments)-1].Edition
	switch {
	case s.current != nil:
		return library.Current
	case first != last:
		return s.name + "-" + s.name
	}
	return first
}

// published returns the time of the last edition's publication.
func (s source) published() time.Time { return s.editions[len(s.editions)-1].Published }

// segments yields what a part of the source has of the hosts that an account sees.
func (s source) segments(ctx context.Context, v *library.AccountView, part part) iter.Seq2[catalog.SegmentEntry, error] {
	switch {
	case s.current != nil:
		return currentSegments(ctx, v, s, part.span)
	case len(part.editions) > 1:
		return sharedSegments(ctx, v, s, part)
	}
	return editionSegments(ctx, v, part.editions[0].Name, v.Scope.Under(s.place), part.span)
}

// modified returns the time when the last edition of a part was published or, if later, when
// something of the part was last taken down, hidden or shown again. So programs that compare times
// fetch it anew.
func (s source) modified(v *library.AccountView, part part) time.Time {
	published := part.editions[len(part.editions)-1].Published
	return v.Modified(published, s.place, func(a catalog.Alteration) bool {
		in := func(ed catalog.Edition) bool { return a.Edition == ed.Name }
		return a.Key > part.from && (part.to == "" || a.Key <= part.to) && (s.current != nil || a.Edition == "" || slices.ContainsFunc(part.editions, in))
	})
}
