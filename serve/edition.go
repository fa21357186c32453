package serve

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"

	"sheaf/archive"
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

func (v *visit) editionFiles(ctx context.Context, edition string) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		for _, name := range []string{fileHosts, fileManifest, fileSums} {
			e, err := v.editionFile(ctx, edition, name)
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

// editionFile finds a text of an edition. It may be long: it is measured once for
// each version and scope, and written when it is read.
func (v *visit) editionFile(ctx context.Context, edition, name string) (*entry, error) {
	ed, err := v.edition(ctx, edition)
	if err != nil {
		return nil, err
	}
	media := "text/plain; charset=utf-8"
	var line func(context.Context, io.Writer, *host) error
	switch name {
	case fileHosts:
		line = func(_ context.Context, w io.Writer, h *host) error {
			_, err := fmt.Fprintln(w, h.name)
			return err
		}
	case fileManifest:
		media = "application/x-ndjson"
		line = func(ctx context.Context, w io.Writer, h *host) error {
			return h.writeFiles(ctx, w, edition, "../../"+h.place+"/")
		}
	case fileSums:
		line = func(ctx context.Context, w io.Writer, h *host) error {
			return h.writeFileSums(ctx, w, edition, "../../"+h.place+"/")
		}
	default:
		return nil, ErrNotFound
	}
	key := fmt.Sprintf("edition %d %q %q", v.snap.Version(), edition, v.scope)
	return v.document(ctx, key, name, media, ed.Published, func(ctx context.Context, w io.Writer) error {
		for h, err := range v.editionHosts(ctx, edition) {
			if err == nil {
				err = line(ctx, w, h)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// editionHosts yields the hosts of an edition within the scope, in the order of
// the tree, each with what the edition brought of it.
func (v *visit) editionHosts(ctx context.Context, edition string) iter.Seq2[*host, error] {
	return func(yield func(*host, error) bool) {
		var lines []catalog.Line // of one host
		flush := func() bool {
			if len(lines) == 0 {
				return true
			}
			name := lines[0].Host
			place := archive.HostPath(name)
			ok := !v.scope.holds(place) || yield(v.hostOf(name, place, lines), nil)
			lines = nil
			return ok
		}
		for l, err := range v.snap.Edition(ctx, edition) {
			if err != nil {
				yield(nil, err)
				return
			}
			if len(lines) > 0 && lines[0].Host != l.Host && !flush() {
				return
			}
			lines = append(lines, l)
		}
		flush()
	}
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
