package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

const dirEditions = "editions"

// findEdition finds a path below /editions. It has a directory for each edition, with the edition's
// texts. If the edition is large, its directory lists shards, each with texts of its own; the texts
// of the whole edition are there but not listed. What the editions of a day brought of a domain is
// below /days.
func (f *finder) findEdition(ctx context.Context, name string) (*library.Entry, error) {
	if name == "" {
		return f.directory(dirEditions, f.listEditions), nil
	}
	name, rest, _ := strings.Cut(name, "/")
	ed, err := f.view.Snap.EditionInfo(ctx, name)
	switch {
	case errors.Is(err, catalog.ErrNotExist) || err == nil && ed.Name != name:
		return nil, library.ErrNotFound
	case err != nil:
		return nil, err
	}
	texts := []string{fileHosts, library.Manifest, library.Sums, fileListing}
	inEdition := func(ctx context.Context, name string) (*library.Entry, error) {
		shard, text, deep := strings.Cut(name, "/")
		keys, err := pick(shard, func() ([]span, error) { return f.shards(ctx, ed) })
		if library.IsNotFound(err) {
			if slices.Contains(texts, name) {
				return f.editionText(ctx, ed, span{}, name, "../../")
			}
			return nil, library.ErrNotFound
		}
		if err != nil {
			return nil, err
		}
		inShard := func(ctx context.Context, name string) (*library.Entry, error) {
			return f.editionText(ctx, ed, keys, name, "../../../")
		}
		if deep {
			return inShard(ctx, text)
		}
		return library.Directory(shard, ed.Published, func(ctx context.Context, emit func(library.Node) error) error {
			return listNames(ctx, texts, emit, inShard)
		}), nil
	}
	if rest != "" {
		return inEdition(ctx, rest)
	}
	return library.Directory(name, ed.Published, func(ctx context.Context, emit func(library.Node) error) error {
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

func (f *finder) listEditions(ctx context.Context, emit func(library.Node) error) error {
	editions, err := f.view.Snap.Editions(ctx)
	for _, ed := range editions {
		if err := emit(library.DirectoryNode(ed.Name, ed.Published)); err != nil {
			return err
		}
	}
	return err
}

// editionText returns a text about a part of an edition. up is the way from its directory to the
// root.
func (f *finder) editionText(ctx context.Context, ed catalog.Edition, keys span, name, up string) (*library.Entry, error) {
	d := library.Document{
		Name: name, Type: "text/plain; charset=utf-8", Modified: source{}.modified(f.view, part{keys, []catalog.Edition{ed}}),
		Key: fmt.Sprintf("edition %d %q %s %q", f.view.Snap.Version(), ed.Name, f.view.Seen(), keys),
	}
	// about writes what the text says about a host, whose path in listings is place.
	var about func(ctx context.Context, w io.Writer, a library.Archive, place string) error
	switch name {
	case fileHosts:
	case library.Manifest:
		d.Type = "application/x-ndjson"
		about = func(ctx context.Context, w io.Writer, a library.Archive, place string) error {
			return a.WriteManifest(ctx, w, up+place+"/")
		}
	case library.Sums:
		about = func(ctx context.Context, w io.Writer, a library.Archive, place string) error {
			return a.WriteSums(ctx, w, up+place+"/")
		}
	case fileListing:
		d.Type = "application/gzip"
		about = func(ctx context.Context, w io.Writer, a library.Archive, place string) error {
			return a.WriteListing(ctx, w, place)
		}
	default:
		return nil, library.ErrNotFound
	}
	write := func(f *finder, ctx context.Context, w io.Writer) error {
		for h, err := range editionHosts(ctx, f.view, ed.Name, keys) {
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
			if err := about(ctx, w, h.Named(ed.Name), place); err != nil {
				return err
			}
		}
		return nil
	}
	if plain := write; name == fileListing {
		write = func(f *finder, ctx context.Context, w io.Writer) error {
			return zipped(w, func(w io.Writer) error { return plain(f, ctx, w) })
		}
	}
	return f.longText(ctx, d, write)
}

// The texts of an edition with very many hosts are divided into shards of Options.Widest hosts
// each, in the order of their keys: /editions/20261121/00001/HOSTS and so on. What an account sees
// of the edition is divided, and not the whole edition.

// span is the hosts of a shard: those with keys above from and not above to. An empty key is no
// bound.
type span struct{ from, to string }

// shards returns the shards of an edition; nil if it is not divided.
func (f *finder) shards(ctx context.Context, ed catalog.Edition) ([]span, error) {
	if ed.Hosts <= int64(f.tree.opt.Widest) {
		return nil, nil
	}
	// The bounds stay as they are while they are cached. Take-downs make the shards smaller.
	key := fmt.Sprintf("shards %q", ed.Name)
	return library.Shared(ctx, f.view, key, func(ctx context.Context, v *library.AccountView) (spans []span, cost int64, err error) {
		n, from, last := 0, "", ""
		for h, err := range editionHosts(ctx, v, ed.Name, span{}) {
			if err != nil {
				return nil, 0, err
			}
			if n > 0 && n%f.tree.opt.Widest == 0 {
				spans = append(spans, span{from, last})
				from = last
			}
			n, last = n+1, catalog.Key(h.Name)
		}
		if len(spans) > 0 {
			spans = append(spans, span{from: from})
		}
		return spans, int64(64 + 128*len(spans)), nil
	})
}

// shardNames returns the names of the first n shards of an edition.
func shardNames(n int) (names []string) {
	for i := range n {
		names = append(names, numbered(i+1))
	}
	return names
}

// numbered is the name of the nth shard or volume.
func numbered(n int) string { return fmt.Sprintf("%05d", n) }

// pick returns the shard or volume that has a name. It calls all only if the name is a number.
func pick[T any](name string, all func() ([]T, error)) (one T, err error) {
	n, err := strconv.Atoi(name)
	if err != nil || n < 1 || numbered(n) != name {
		return one, library.ErrNotFound
	}
	parts, err := all()
	switch {
	case err != nil:
		return one, err
	case n > len(parts):
		return one, library.ErrNotFound
	}
	return parts[n-1], nil
}

// editionHosts yields the hosts that the account sees in a part of an edition, in the order of
// their keys, each with what the edition brought.
func editionHosts(ctx context.Context, v *library.AccountView, edition string, part span) iter.Seq2[*library.Host, error] {
	return v.HostsOf(editionSegments(ctx, v, edition, v.Scope, part))
}

// editionSegments yields the segments that a part of an edition has of a scope's hosts.
func editionSegments(ctx context.Context, v *library.AccountView, edition string, scope account.Scope, part span) iter.Seq2[catalog.SegmentEntry, error] {
	return segmentsWithin(scope, part, func(after string) iter.Seq2[catalog.SegmentEntry, error] {
		return v.Snap.EditionAfter(ctx, edition, after)
	})
}

// segmentsWithin yields the entries of a part's hosts that lie in a scope. walk yields the entries
// of hosts whose keys are above the given one, in key order.
func segmentsWithin(scope account.Scope, part span, walk func(after string) iter.Seq2[catalog.SegmentEntry, error]) iter.Seq2[catalog.SegmentEntry, error] {
	var prefixes []string // of the keys in the scope
	for _, root := range scope {
		prefixes = append(prefixes, account.KeyPrefix(root))
	}
	slices.Sort(prefixes)
	return func(yield func(catalog.SegmentEntry, error) bool) {
		after := part.from
		for _, prefix := range prefixes {
			for seg, err := range walk(max(after, before(prefix))) {
				if err != nil {
					yield(seg, err)
					return
				}
				key := catalog.Key(seg.Host)
				if part.to != "" && key > part.to || !strings.HasPrefix(key, prefix) {
					break
				}
				after = key
				if scope.Holds(naming.HostPath(seg.Host)) && !yield(seg, nil) {
					return
				}
			}
		}
	}
}
