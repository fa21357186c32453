package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"sheaf/archive/catalog"
	"sheaf/serve/archives"
	"sheaf/serve/content"
)

const dirEditions = "editions"

// The names of the texts at the root and of the editions, besides those of package archives.
const (
	fileReadme  = "README"
	fileLatest  = "LATEST"
	fileHosts   = "HOSTS"
	fileListing = "ls-lR.gz"
)

// findEdition finds a path below /editions. That is an edition's directory with its texts. If the
// edition is large, its directory lists shards, each with texts of its own; the texts of the whole
// edition are there but not listed.
func (f *finder) findEdition(ctx context.Context, name string) (*content.Entry, error) {
	if name == "" {
		return f.directory(dirEditions, f.listEditions), nil
	}
	name, rest, _ := strings.Cut(name, "/")
	ed, err := f.view.Snap.EditionInfo(ctx, name)
	switch {
	case errors.Is(err, catalog.ErrNotExist) || err == nil && ed.Name != name:
		return nil, content.ErrNotFound
	case err != nil:
		return nil, err
	}
	texts := []string{fileHosts, archives.Manifest, archives.Sums, fileListing}
	inEdition := func(ctx context.Context, name string) (*content.Entry, error) {
		shard, text, deep := strings.Cut(name, "/")
		keys, err := f.shard(ctx, ed, shard)
		if content.IsNotFound(err) && !deep {
			return f.editionText(ctx, ed, span{}, name, "../../")
		}
		if err != nil {
			return nil, err
		}
		inShard := func(ctx context.Context, name string) (*content.Entry, error) {
			return f.editionText(ctx, ed, keys, name, "../../../")
		}
		if deep {
			return inShard(ctx, text)
		}
		return content.Directory(shard, ed.Published, func(ctx context.Context, emit func(content.Node) error) error {
			return listNames(ctx, texts, emit, inShard)
		}), nil
	}
	if rest != "" {
		return inEdition(ctx, rest)
	}
	return content.Directory(name, ed.Published, func(ctx context.Context, emit func(content.Node) error) error {
		shards, err := f.shards(ctx, ed)
		if err != nil {
			return err
		}
		names := texts
		if len(shards) > 0 {
			names = shardNames(len(shards))
		}
		return listNames(ctx, names, emit, inEdition)
	}), nil
}

func (f *finder) listEditions(ctx context.Context, emit func(content.Node) error) error {
	editions, err := f.view.Snap.Editions(ctx)
	for _, ed := range editions {
		if err := emit(content.DirectoryNode(ed.Name, ed.Published)); err != nil {
			return err
		}
	}
	return err
}

// editionText returns a text about the part of an edition. up leads from its directory to the root.
// The text may be long: it is measured once for each version and scope, and written when it is read.
func (f *finder) editionText(ctx context.Context, ed catalog.Edition, part span, name, up string) (*content.Entry, error) {
	d := content.Document{
		Name: name, Type: "text/plain; charset=utf-8", Modified: ed.Published,
		Key: fmt.Sprintf("edition %d %q %q %q", f.view.Snap.Version(), ed.Name, f.view.Scope, part),
	}
	// about writes what the text says about a host, whose path in listings is place.
	var about func(ctx context.Context, w io.Writer, a archives.Archive, place string) error
	switch name {
	case fileHosts:
	case archives.Manifest:
		d.Type = "application/x-ndjson"
		about = func(ctx context.Context, w io.Writer, a archives.Archive, place string) error {
			return a.WriteManifest(ctx, w, up+place+"/")
		}
	case archives.Sums:
		about = func(ctx context.Context, w io.Writer, a archives.Archive, place string) error {
			return a.WriteSums(ctx, w, up+place+"/")
		}
	case fileListing:
		d.Type = "application/gzip"
		about = func(ctx context.Context, w io.Writer, a archives.Archive, place string) error {
			return a.WriteListing(ctx, w, place)
		}
	default:
		return nil, content.ErrNotFound
	}
	d.Write = func(ctx context.Context, w io.Writer) error {
		for h, err := range editionHosts(ctx, f.view, ed.Name, part) {
			if err != nil {
				return err
			}
			if name == fileHosts {
				if _, err := fmt.Fprintln(w, h.Name); err != nil {
					return err
				}
				continue
			}
			place, err := f.shown(ctx, h.Place)
			if err != nil {
				return err
			}
			if err := about(ctx, w, archives.Of(h, f.view.Archive).Named(ed.Name), place); err != nil {
				return err
			}
		}
		return nil
	}
	if plain := d.Write; name == fileListing {
		d.Write = func(ctx context.Context, w io.Writer) error {
			return zipped(w, func(w io.Writer) error { return plain(ctx, w) })
		}
	}
	return d.Entry(ctx, f.view.Archive.Memo)
}

// rootText returns a text at the root.
func (f *finder) rootText(ctx context.Context, name string) (*content.Entry, error) {
	const media = "text/plain; charset=utf-8"
	if name == fileReadme {
		a := f.view.Account
		d := content.Document{Name: name, Type: media, Modified: readmeDate, Write: f.writeReadme,
			Key: fmt.Sprintf("%q %v %v %d", f.view.Scope, a.Window, a.Rate, a.Quota)}
		return always(d.Entry(ctx, f.view.Archive.Memo))
	}
	editions, err := f.view.Snap.Editions(ctx)
	if err != nil {
		return nil, err
	}
	if len(editions) == 0 {
		return nil, content.ErrNotFound
	}
	if name == fileListing {
		return f.listingOfAll(ctx)
	}
	newest := editions[len(editions)-1]
	d := content.Document{Name: name, Type: media, Modified: newest.Published, Key: newest.Name, Write: func(_ context.Context, w io.Writer) error {
		_, err := fmt.Fprintln(w, newest.Name)
		return err
	}}
	return d.Entry(ctx, f.view.Archive.Memo)
}

// always lets an entry be read while the account's window is closed.
func always(e *content.Entry, err error) (*content.Entry, error) {
	if err == nil {
		e.Always = true
	}
	return e, err
}
