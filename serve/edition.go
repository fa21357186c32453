package serve

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"

	"sheaf/archive/catalog"
	"sheaf/serve/feed"
)

const dirEditions = "editions"

// The names of the text files.
const (
	fileReadme   = "README"
	fileLatest   = "LATEST"
	fileHosts    = "HOSTS"
	fileManifest = "MANIFEST"
	fileSums     = "SHA256SUMS"
)

func (v *visit) editions(ctx context.Context) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		editions, err := v.snap.Editions(ctx)
		if err != nil {
			yield(Node{}, err)
			return
		}
		for _, ed := range editions {
			if !yield(v.directory(ed.Name, ed.Published).Node, nil) {
				return
			}
		}
	}
}

func (v *visit) edition(ctx context.Context, name string) (catalog.Edition, error) {
	editions, err := v.snap.Editions(ctx)
	if err != nil {
		return catalog.Edition{}, err
	}
	i := slices.IndexFunc(editions, func(ed catalog.Edition) bool { return ed.Name == name })
	if i < 0 {
		return catalog.Edition{}, ErrNotFound
	}
	return editions[i], nil
}

// editionPlace finds what lies below /editions/<edition>: the edition's texts or, of
// a large one, the directories of its shards, and in each the shard's texts. The texts
// of the whole of a large one are there too for who asks by name, and not listed.
func (v *visit) editionPlace(ctx context.Context, ed catalog.Edition, rest []string) (*entry, error) {
	switch len(rest) {
	case 1:
		if _, err := v.shard(ctx, ed, rest[0]); err == nil {
			return v.directory(rest[0], ed.Published), nil
		} else if !isNotFound(err) {
			return nil, err
		}
		return v.editionFile(ctx, ed, span{}, rest[0], "../../")
	case 2:
		shard, err := v.shard(ctx, ed, rest[0])
		if err != nil {
			return nil, err
		}
		return v.editionFile(ctx, ed, shard, rest[1], "../../../")
	}
	return nil, ErrNotFound
}

// editionEntries yields what an edition's directory holds, or one of its shards'.
func (v *visit) editionEntries(ctx context.Context, ed catalog.Edition, rest []string) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		names := []string{fileHosts, fileManifest, fileSums, fileLong}
		if len(rest) == 0 {
			spans, err := v.shards(ctx, ed)
			if err != nil {
				yield(Node{}, err)
				return
			}
			if len(spans) > 0 {
				names = nil
			}
			for i := range spans {
				names = append(names, shardName(i))
			}
		}
		for _, name := range names {
			e, err := v.editionPlace(ctx, ed, append(slices.Clip(rest), name))
			if err != nil {
				yield(Node{}, fmt.Errorf("%s: %w", name, err))
				return
			}
			if !yield(e.Node, nil) {
				return
			}
		}
	}
}

// editionFile finds a text of a part of an edition; root leads from its directory to
// the tree's. It may be long: it is measured once for each version and scope, and
// written when it is read.
func (v *visit) editionFile(ctx context.Context, ed catalog.Edition, part span, name, root string) (*entry, error) {
	media := "text/plain; charset=utf-8"
	line := func(ctx context.Context, w io.Writer, h *host) error {
		place, err := v.shown(ctx, h.place)
		if err != nil {
			return err
		}
		switch name {
		case fileManifest:
			return h.archive(ed.Name).writeFiles(ctx, w, root+place+"/")
		case fileLong:
			return h.writeLong(ctx, w, place, h.archive(ed.Name))
		}
		return h.archive(ed.Name).writeFileSums(ctx, w, root+place+"/")
	}
	switch name {
	case fileHosts:
		line = func(_ context.Context, w io.Writer, h *host) error {
			_, err := fmt.Fprintln(w, h.name)
			return err
		}
	case fileManifest:
		media = "application/x-ndjson"
	case fileLong:
		media = "application/gzip"
	case fileSums:
	default:
		return nil, ErrNotFound
	}
	key := fmt.Sprintf("edition %d %q %q %q", v.snap.Version(), ed.Name, v.scope, part)
	write := func(ctx context.Context, w io.Writer) error {
		for h, err := range v.editionHosts(ctx, ed.Name, part) {
			if err == nil {
				err = line(ctx, w, h)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if name == fileLong {
		plain := write
		write = func(ctx context.Context, w io.Writer) error {
			return zipped(w, func(w io.Writer) error { return plain(ctx, w) })
		}
	}
	return v.document(ctx, key, name, media, ed.Published, write)
}

// rootFile finds a text at the root.
func (v *visit) rootFile(ctx context.Context, name string) (*entry, error) {
	const media = "text/plain; charset=utf-8"
	if name == fileReadme {
		key := fmt.Sprintf("%q %v %v %d", v.scope, v.account.Window, v.account.Rate, v.account.Quota)
		e, err := v.document(ctx, key, name, media, readmeDate, v.writeReadme)
		if err == nil {
			e.always = true
		}
		return e, err
	}
	editions, err := v.snap.Editions(ctx)
	if err != nil {
		return nil, err
	}
	if len(editions) == 0 {
		return nil, ErrNotFound
	}
	if name == fileLong {
		return v.longOfAll(ctx)
	}
	newest := editions[len(editions)-1]
	return v.document(ctx, newest.Name, name, media, newest.Published, func(_ context.Context, w io.Writer) error {
		_, err := fmt.Fprintln(w, newest.Name)
		return err
	})
}

// rootFiles yields what the root holds beside the hosts.
func (v *visit) rootFiles(ctx context.Context) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		for _, name := range []string{fileReadme, fileLatest, dirEditions, feed.Dir} {
			e, err := v.find(ctx, "/"+name)
			if isNotFound(err) {
				continue
			}
			if err != nil {
				yield(Node{}, err)
				return
			}
			if !yield(e.Node, nil) {
				return
			}
		}
	}
}
