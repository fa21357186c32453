package tree

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/account"
	"sheaf/serve/archives"
	"sheaf/serve/content"
	"sheaf/serve/tables"
	"sheaf/serve/visible"
)

// An edition's hosts of a domain are also offered in volumes, for who wants all of jp: in a few
// large files instead of two for each of a million hosts. Where a volume ends depends on what the
// edition brought of the domain, and on nothing that happens later or that an account may see. So
// volumes keep their numbers. What is taken down, has expired or is outside of the account's scope
// is not in its volume. A volume of which nothing is left is not there.

// volumeHosts is how many hosts a volume has at most. The hosts of an open one are held.
const volumeHosts = 10_000

// findVolumes finds a path below an edition's directory: a domain's directory or a file in it.
func (f *finder) findVolumes(ctx context.Context, ed catalog.Edition, name string) (*content.Entry, error) {
	dir, base := path.Split(name)
	place := strings.TrimSuffix(dir, "/")
	if place != "" && base == archives.Manifest {
		return f.volumesManifest(ctx, ed, place)
	}
	if volume, table, ok := tables.CutVolume(base); ok && place != "" {
		return f.findTable(ctx, ed, place, volume, table)
	}
	if volume, suffix, ok := archives.CutVolume(base); ok && place != "" {
		part, err := pick(volume, func() ([]span, error) { return f.volumeSpans(ctx, ed, place) })
		if err != nil {
			return nil, err
		}
		v, err := f.volume(ctx, ed, place, part)
		if err != nil {
			return nil, err
		}
		if v.Hosts() == 0 {
			return nil, content.ErrNotFound
		}
		return v.File(ctx, volume, suffix)
	}
	for _, err := range editionSegments(ctx, f.view, ed.Name, f.view.Scope.Under(name), span{}) {
		return content.Directory(base, ed.Published, func(ctx context.Context, emit func(content.Node) error) error {
			return f.listVolumes(ctx, ed, name, emit)
		}), err
	}
	return nil, content.ErrNotFound
}

// listDomains lists the top-level domains of which an edition has something for the account.
func (f *finder) listDomains(ctx context.Context, ed catalog.Edition, emit func(content.Node) error) error {
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
				if err := emit(content.DirectoryNode(domain, ed.Published)); err != nil {
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
func (f *finder) findTable(ctx context.Context, ed catalog.Edition, place, volume, name string) (*content.Entry, error) {
	part, err := pick(volume, func() ([]span, error) { return f.volumeSpans(ctx, ed, place) })
	if err != nil {
		return nil, err
	}
	v, err := f.volumeFiles(ctx, ed, place, part, volume)
	if err != nil {
		return nil, err
	}
	all, err := f.tablesOf(ctx, ed, place, v, volume)
	if i := slices.IndexFunc(all, func(t tables.OfVolume) bool { return t.Name == name }); i >= 0 {
		return f.tree.opt.Tables.File(all[i], v.modified), nil
	}
	return nil, cmp.Or(err, content.ErrNotFound)
}

// tablesOf returns the tables that were made of a volume as the account sees it.
func (f *finder) tablesOf(ctx context.Context, ed catalog.Edition, place string, v *volumeFiles, volume string) ([]tables.OfVolume, error) {
	stored, err := f.tree.opt.Tables.Volumes(ctx, ed.Name, place)
	return slices.DeleteFunc(slices.Clone(stored), func(t tables.OfVolume) bool { return t.Volume != volume || t.Digest != v.digest }), err
}

// volumesManifest returns the list of the files of a domain's volumes.
func (f *finder) volumesManifest(ctx context.Context, ed catalog.Edition, place string) (*content.Entry, error) {
	var list bytes.Buffer
	lines, last := json.NewEncoder(&list), time.Time{}
	err := f.eachVolumeFile(ctx, ed, place, func(n content.Node) error {
		if n.Modified.After(last) {
			last = n.Modified
		}
		return lines.Encode(archives.ManifestLine{Path: n.Name, Edition: ed.Name, Size: n.Size, SHA256: n.SHA256, ETag: n.ETag, Modified: n.Modified})
	})
	if err != nil {
		return nil, err
	}
	if list.Len() == 0 {
		return nil, content.ErrNotFound
	}
	d := content.Document{
		Name: archives.Manifest, Type: "application/x-ndjson", Modified: last, Key: "volumes " + list.String(),
		Write: func(_ context.Context, w io.Writer) error {
			_, err := w.Write(list.Bytes())
			return err
		},
	}
	return d.Entry(ctx, f.view.Archive.Memo)
}

// listVolumes lists the files of a domain's volumes.
func (f *finder) listVolumes(ctx context.Context, ed catalog.Edition, place string, emit func(content.Node) error) error {
	if err := f.eachVolumeFile(ctx, ed, place, emit); err != nil {
		return err
	}
	e, err := f.volumesManifest(ctx, ed, place)
	if err != nil {
		return err
	}
	return emit(e.Node)
}

// eachVolumeFile calls emit with the files of a domain's volumes, and the tables of what they have.
func (f *finder) eachVolumeFile(ctx context.Context, ed catalog.Edition, place string, emit func(content.Node) error) error {
	spans, err := f.volumeSpans(ctx, ed, place)
	if err != nil {
		return err
	}
	for i, part := range spans {
		v, err := f.volumeFiles(ctx, ed, place, part, numbered(i+1))
		if err != nil {
			return err
		}
		made, err := f.tablesOf(ctx, ed, place, v, numbered(i+1))
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
	Make         func(context.Context) (*archives.Volume, error)
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
	return f.listDomains(ctx, ed, func(domain content.Node) error {
		spans, err := f.volumeSpans(ctx, ed, domain.Name)
		if err != nil {
			return err
		}
		for i, part := range spans {
			modified, err := lastChange(ctx, v, ed, domain.Name, part)
			if err != nil {
				return err
			}
			of := VolumeOf{Domain: domain.Name, Name: numbered(i + 1), Modified: modified.Truncate(time.Millisecond), Seen: v.Veil.State()}
			of.Make = func(ctx context.Context) (*archives.Volume, error) { return makeVolume(ctx, v, ed, domain.Name, part) }
			if err := each(of); err != nil {
				return err
			}
		}
		return nil
	})
}

// volumeSpans returns the hosts of each volume of a domain.
func (f *finder) volumeSpans(ctx context.Context, ed catalog.Edition, place string) ([]span, error) {
	key := fmt.Sprintf("volumes %q %q", ed.Name, place)
	return visible.Shared(ctx, f.view, f.view.Archive.Memo, key, func(ctx context.Context, v *visible.AccountView) (spans []span, cost int64, err error) {
		size, hosts, at := int64(0), 0, span{}
		for h, err := range v.Snap.EditionSizes(ctx, ed.Name, account.KeyPrefix(place)) {
			switch {
			case err != nil:
				return nil, 0, err
			case !account.Within(strings.ReplaceAll(h.Key, ",", "/"), place):
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
func (f *finder) volume(ctx context.Context, ed catalog.Edition, place string, part span) (*archives.Volume, error) {
	key := f.volumeKey("volume", ed, place, part)
	return visible.Shared(ctx, f.view, f.view.Archive.Memo, key, func(ctx context.Context, v *visible.AccountView) (*archives.Volume, int64, error) {
		made, err := makeVolume(ctx, v, ed, place, part)
		if err != nil {
			return nil, 0, err
		}
		return made, made.Held(), nil
	})
}

// volumeFiles is what listings have of a volume.
type volumeFiles struct {
	digest   string // archives.Volume.Digest
	modified time.Time
	nodes    []content.Node // none if the account sees nothing of it
}

// volumeFiles describes the files of a volume. Of a listing no more is kept than that.
func (f *finder) volumeFiles(ctx context.Context, ed catalog.Edition, place string, part span, name string) (*volumeFiles, error) {
	key := f.volumeKey("volume files", ed, place, part)
	return visible.Shared(ctx, f.view, f.view.Archive.Memo, key, func(ctx context.Context, v *visible.AccountView) (*volumeFiles, int64, error) {
		made, err := makeVolume(ctx, v, ed, place, part)
		if err != nil || made.Hosts() == 0 {
			return new(volumeFiles), 256, err
		}
		files := &volumeFiles{digest: made.Digest(), modified: made.Modified()}
		err = made.Files(ctx, name, func(e *content.Entry) error {
			files.nodes = append(files.nodes, e.Node)
			return nil
		})
		return files, 1024, err
	})
}

func (f *finder) volumeKey(what string, ed catalog.Edition, place string, part span) string {
	return fmt.Sprintf("%s %d %q %q %q", what, f.view.Snap.Withdrawals(), ed.Name, place, part)
}

func makeVolume(ctx context.Context, v *visible.AccountView, ed catalog.Edition, place string, part span) (*archives.Volume, error) {
	modified, err := lastChange(ctx, v, ed, place, part)
	if err != nil {
		return nil, err
	}
	made := archives.NewVolume(v.Archive, modified)
	for h, err := range v.HostsOf(editionSegments(ctx, v, ed.Name, v.Scope.Under(place), part)) {
		if err != nil {
			return nil, err
		}
		if err := made.Add(ctx, archives.Of(h, v.Archive).Named(ed.Name)); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// lastChange returns when a volume's edition was published, or when something of the volume was
// last taken down or shown again: programs that compare times fetch it anew.
func lastChange(ctx context.Context, v *visible.AccountView, ed catalog.Edition, place string, part span) (time.Time, error) {
	key := fmt.Sprintf("take-downs %d", v.Snap.Withdrawals())
	stones, err := visible.Shared(ctx, v, v.Archive.Memo, key, func(ctx context.Context, v *visible.AccountView) ([]catalog.Tombstone, int64, error) {
		all, err := v.Snap.Takedowns(ctx, "")
		return all, 64 + int64(len(all))*256, err
	})
	last := ed.Published
	for _, t := range stones {
		key := catalog.Key(t.Host)
		within := key > part.from && (part.to == "" || key <= part.to) && account.Within(archive.HostPath(t.Host), place)
		if within && (t.Edition == "" || t.Edition == ed.Name) && t.At.After(last) {
			last = t.At
		}
	}
	return last, err
}
