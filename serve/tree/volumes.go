package tree

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"sheaf/archive/catalog"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/tables"
)

// An edition's hosts of a domain are also offered in volumes, for who wants all of jp: in a few
// large files instead of two for each of a million hosts. Where a volume ends depends on what the
// edition brought of the domain, and on nothing that happens later or that an account may see. So
// volumes keep their numbers. What is taken down, has expired or is outside of the account's scope
// is not in its volume. A volume of which nothing is left is not there. current.go has volumes of
// the latest version of every page.

// source is what volumes are made of: what an edition brought of a domain or, if current is true,
// the latest version of every page of the domain when the edition had been published.
type source struct {
	ed      catalog.Edition
	place   string // of the domain in the tree, such as "jp/ac"
	current bool
}

// volumeHosts is how many hosts a volume has at most. The hosts of an open one are held.
const volumeHosts = 10_000

// findVolumes finds a path below an edition's directory: a domain's directory or a file in it.
func (f *finder) findVolumes(ctx context.Context, ed catalog.Edition, name string) (*library.Entry, error) {
	dir, base := path.Split(name)
	if of := (source{ed: ed, place: strings.TrimSuffix(dir, "/")}); of.place != "" {
		if volume, table, ok := tables.CutVolume(base); ok {
			return f.findTable(ctx, of, volume, table)
		}
		if e, err := f.volumesFile(ctx, of, base); !library.IsNotFound(err) {
			return e, err
		}
	}
	return f.volumesDirectory(ctx, source{ed: ed, place: name})
}

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
	part, err := pick(volume, func() ([]span, error) { return f.volumeSpans(ctx, of) })
	if err != nil {
		return nil, err
	}
	v, err := f.volume(ctx, of, part, volume)
	if err != nil {
		return nil, err
	}
	if v.Hosts() == 0 {
		return nil, library.ErrNotFound
	}
	return v.File(ctx, volume, suffix)
}

// volumesDirectory returns the directory of a domain's volumes, if there is anything in them.
func (f *finder) volumesDirectory(ctx context.Context, of source) (*library.Entry, error) {
	for _, err := range of.segments(ctx, f.view, span{}) {
		return library.Directory(path.Base(of.place), of.ed.Published, func(ctx context.Context, emit func(library.Node) error) error {
			return f.listVolumes(ctx, of, emit)
		}), err
	}
	return nil, library.ErrNotFound
}

// listDomains lists the top-level domains of which an edition has something for the account.
func (f *finder) listDomains(ctx context.Context, ed catalog.Edition, emit func(library.Node) error) error {
	listed := make(map[string]bool)
	for from, more := "", true; more; {
		more = false
		for seg, err := range editionSegments(ctx, f.view, ed.Name, f.view.Scope, span{from: from}) {
			if err != nil {
				return err
			}
			key := catalog.Key(seg.Host)
			domain, _, deep := strings.Cut(key, ",")
			if at := strings.LastIndexByte(domain, '_'); !deep && at > 0 && account.IsPort(domain[at:]) {
				domain = domain[:at]
			}
			if !listed[domain] {
				listed[domain] = true
				if err := emit(library.DirectoryNode(domain, ed.Published)); err != nil {
					return err
				}
			}
			// Hosts on other ports, "jp_8080", come behind "jp-x", and are met there.
			from, more = max(key, domain+",~"), true
			break
		}
	}
	return nil
}

// findTable finds a table of what a volume has, if one was made of it as the account sees it.
func (f *finder) findTable(ctx context.Context, of source, volume, name string) (*library.Entry, error) {
	part, err := pick(volume, func() ([]span, error) { return f.volumeSpans(ctx, of) })
	if err != nil {
		return nil, err
	}
	v, err := f.volumeFiles(ctx, of, part, volume)
	if err != nil {
		return nil, err
	}
	all, err := f.tablesOf(ctx, of, v, volume)
	if i := slices.IndexFunc(all, func(t tables.OfVolume) bool { return t.Name == name }); i >= 0 {
		return f.tree.opt.Tables.File(all[i], v.modified), nil
	}
	return nil, cmp.Or(err, library.ErrNotFound)
}

// tablesOf returns the tables that were made of a volume as the account sees it.
func (f *finder) tablesOf(ctx context.Context, of source, v *volumeFiles, volume string) ([]tables.OfVolume, error) {
	if of.current {
		return nil, nil
	}
	stored, err := f.tree.opt.Tables.Volumes(ctx, of.ed.Name, of.place)
	return slices.DeleteFunc(slices.Clone(stored), func(t tables.OfVolume) bool { return t.Volume != volume || t.Digest != v.digest }), err
}

// volumesManifest returns the list of the files of a domain's volumes.
func (f *finder) volumesManifest(ctx context.Context, of source) (*library.Entry, error) {
	var list bytes.Buffer
	lines, last := json.NewEncoder(&list), time.Time{}
	err := f.eachVolumeFile(ctx, of, func(n library.Node) error {
		if n.Modified.After(last) {
			last = n.Modified
		}
		return lines.Encode(library.ManifestLine{Path: n.Name, Edition: of.ed.Name, Size: n.Size, SHA256: n.SHA256, ETag: n.ETag, Modified: n.Modified})
	})
	if err != nil {
		return nil, err
	}
	if list.Len() == 0 {
		return nil, library.ErrNotFound
	}
	d := library.Document{
		Name: library.Manifest, Type: "application/x-ndjson", Modified: last, Key: "volumes " + list.String(),
		Write: func(_ context.Context, w io.Writer) error {
			_, err := w.Write(list.Bytes())
			return err
		},
	}
	return d.Entry(ctx, f.view.Archive.Memo)
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

// eachVolumeFile calls emit with the files of a domain's volumes, and the tables of what they have.
func (f *finder) eachVolumeFile(ctx context.Context, of source, emit func(library.Node) error) error {
	spans, err := f.volumeSpans(ctx, of)
	if err != nil {
		return err
	}
	for i, part := range spans {
		v, err := f.volumeFiles(ctx, of, part, numbered(i+1))
		if err != nil {
			return err
		}
		made, err := f.tablesOf(ctx, of, v, numbered(i+1))
		if err != nil {
			return err
		}
		nodes := slices.Clone(v.nodes)
		for _, t := range made {
			nodes = append(nodes, f.tree.opt.Tables.File(t, v.modified).Node)
		}
		for _, n := range nodes {
			if err := emit(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// VolumeOf is a volume of an edition's hosts of a domain, in one version of the catalog.
type VolumeOf struct {
	Domain, Name string    // such as jp and 00001
	Modified     time.Time // when something of it was last published, taken down or shown again
	Seen         string    // what access rules hide from the account; "": nothing
	Make         func(context.Context) (*library.Volume, error)
}

// Newest returns the names of the n newest editions, the newest last, and what an account sees:
// while that is the same, so is the tree.
func (t *Tree) Newest(ctx context.Context, a *account.Account, n int) (editions []string, sees string, err error) {
	v, err := t.opt.Archive.View(ctx, a)
	if err != nil {
		return nil, "", err
	}
	defer v.Release()
	all, err := v.Snap.Editions(ctx)
	for _, ed := range all[max(0, len(all)-n):] {
		editions = append(editions, ed.Name)
	}
	return editions, fmt.Sprintf("%d %s", v.Snap.Version(), v.Seen()), err
}

// NewestAndLargest is Newest, and names also the largest edition of each of the newest n days on
// which something was published. So many small editions of a day, such as those of express
// batches, do not stand in the place of a night's.
func (t *Tree) NewestAndLargest(ctx context.Context, a *account.Account, n int) (editions []string, sees string, err error) {
	v, err := t.opt.Archive.View(ctx, a)
	if err != nil {
		return nil, "", err
	}
	defer v.Release()
	all, err := v.Snap.Editions(ctx)
	const day = len("20261121") // with which an edition's name begins
	largest := make(map[string]catalog.Edition)
	for _, ed := range slices.Backward(all) {
		of := ed.Name[:min(day, len(ed.Name))]
		if old, known := largest[of]; known && ed.Records > old.Records || !known && len(largest) < n {
			largest[of] = ed
		}
	}
	for i, ed := range all {
		if i >= len(all)-n || largest[ed.Name[:min(day, len(ed.Name))]].Name == ed.Name {
			editions = append(editions, ed.Name)
		}
	}
	return editions, fmt.Sprintf("%d %s", v.Snap.Version(), v.Seen()), err
}

// Volumes calls each with the volumes of an edition's domains that an account sees, in one version
// of the catalog. It does not make them.
func (t *Tree) Volumes(ctx context.Context, a *account.Account, edition string, each func(VolumeOf) error) error {
	v, err := t.opt.Archive.View(ctx, a)
	if err != nil {
		return err
	}
	defer v.Release()
	f := &finder{t, v}
	ed, err := v.Snap.EditionInfo(ctx, edition)
	if err != nil {
		return err
	}
	return f.listDomains(ctx, ed, func(domain library.Node) error {
		from := source{ed: ed, place: domain.Name}
		spans, err := f.volumeSpans(ctx, from)
		if err != nil {
			return err
		}
		for i, part := range spans {
			modified := from.modified(v, part).Truncate(time.Millisecond)
			of := VolumeOf{Domain: domain.Name, Name: numbered(i + 1), Modified: modified, Seen: v.Veil.State()}
			of.Make = func(ctx context.Context) (*library.Volume, error) { return t.makeVolume(ctx, v, from, part, of.Name) }
			if err := each(of); err != nil {
				return err
			}
		}
		return nil
	})
}

// volumeSpans returns the hosts of each volume of a domain.
func (f *finder) volumeSpans(ctx context.Context, of source) ([]span, error) {
	if of.current {
		return f.tree.currentSpans(ctx, of)
	}
	key := fmt.Sprintf("volumes %q %q", of.ed.Name, of.place)
	return library.Shared(ctx, f.view, f.view.Archive.Memo, key, func(ctx context.Context, v *library.AccountView) (spans []span, cost int64, err error) {
		size, hosts, at := int64(0), 0, span{}
		for h, err := range v.Snap.EditionSizes(ctx, of.ed.Name, account.KeyPrefix(of.place)) {
			switch {
			case err != nil:
				return nil, 0, err
			case !account.Within(strings.ReplaceAll(h.Key, ",", "/"), of.place):
				continue
			case hosts > 0 && (size+h.Bytes > f.tree.opt.VolumeBytes || hosts == volumeHosts):
				spans = append(spans, at)
				size, hosts, at = 0, 0, span{from: at.to}
			}
			size, hosts, at.to = size+h.Bytes, hosts+1, h.Key
		}
		if hosts > 0 {
			spans = append(spans, at)
		}
		return spans, int64(64 + 256*len(spans)), nil
	})
}

// volume returns what the account sees of a volume. It costs some microseconds a host.
func (f *finder) volume(ctx context.Context, of source, part span, name string) (*library.Volume, error) {
	key := f.volumeKey("volume", of, part)
	return library.Shared(ctx, f.view, f.view.Archive.Memo, key, func(ctx context.Context, v *library.AccountView) (*library.Volume, int64, error) {
		made, err := f.tree.makeVolume(ctx, v, of, part, name)
		if err != nil {
			return nil, 0, err
		}
		return made, made.Held(), nil
	})
}

// volumeFiles is what listings have of a volume.
type volumeFiles struct {
	digest   string // library.Volume.Digest
	modified time.Time
	nodes    []library.Node // none if the account sees nothing of it
}

// volumeFiles describes the files of a volume. Of a listing no more is kept than that.
func (f *finder) volumeFiles(ctx context.Context, of source, part span, name string) (*volumeFiles, error) {
	key := f.volumeKey("volume files", of, part)
	return library.Shared(ctx, f.view, f.view.Archive.Memo, key, func(ctx context.Context, v *library.AccountView) (*volumeFiles, int64, error) {
		made, err := f.tree.makeVolume(ctx, v, of, part, name)
		if err != nil || made.Hosts() == 0 {
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

func (f *finder) volumeKey(what string, of source, part span) string {
	return fmt.Sprintf("%s %d %q %q %t %q", what, f.view.Snap.Withdrawals(), of.ed.Name, of.place, of.current, part)
}

func (t *Tree) makeVolume(ctx context.Context, v *library.AccountView, of source, part span, name string) (*library.Volume, error) {
	var known map[string]library.Measure
	if of.current {
		known = t.measured(ctx, Current{Edition: of.ed.Name, Domain: of.place}, name)
	}
	made := library.NewVolume(v.Archive, of.modified(v, part))
	for h, err := range v.HostsOf(of.segments(ctx, v, part)) {
		if err != nil {
			return nil, err
		}
		a, m, err := library.Of(h, v.Archive).Named(of.base()).Measure(ctx, known)
		if err != nil {
			return nil, err
		}
		made.Add(a, m)
	}
	return made, nil
}

// base is what the names of the hosts' archives begin with.
func (s source) base() string {
	if s.current {
		return library.Current
	}
	return s.ed.Name
}

// segments yields what a part of the source has of the hosts that an account sees.
func (s source) segments(ctx context.Context, v *library.AccountView, part span) iter.Seq2[catalog.SegmentEntry, error] {
	if s.current {
		return currentSegments(ctx, v, s, part)
	}
	return editionSegments(ctx, v, s.ed.Name, v.Scope.Under(s.place), part)
}

// modified returns when a source's edition was published, or when something of a part of it was
// last taken down, hidden or shown again: programs that compare times fetch it anew.
func (s source) modified(v *library.AccountView, part span) time.Time {
	return v.Modified(s.ed.Published, s.place, func(a catalog.Alteration) bool {
		return a.Key > part.from && (part.to == "" || a.Key <= part.to) && (s.current || a.Edition == "" || a.Edition == s.ed.Name)
	})
}
