package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"sheaf/archive/catalog"
	"sheaf/internal/api"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// levelDirectory returns a directory of the tree of reversed names.
func (f *finder) levelDirectory(ctx context.Context, place string) (*library.Entry, error) {
	h, err := f.view.Host(ctx, place)
	if err != nil {
		return nil, err
	}
	if h == nil {
		switch exists, err := f.view.Exists(ctx, place); {
		case err != nil:
			return nil, err
		case !exists:
			return nil, library.ErrNotFound
		}
	}
	e := f.directory(path.Base(place), func(ctx context.Context, emit func(library.Node) error) error {
		if err := f.children(ctx, place, "", emit); err != nil || h == nil {
			return err
		}
		return h.Files(ctx, emit)
	})
	if h != nil {
		e.Modified = library.Seconds(h.LastModified())
	}
	return e, nil
}

// fanDirectory returns a directory that stands for first letters, if any entry begins with them.
func (f *finder) fanDirectory(ctx context.Context, place, letters string) (*library.Entry, error) {
	stop := func(library.Node) error { return errStop }
	var err error
	if f.view.Scope.Holds(place) {
		err = level(ctx, f.view, place, letters, stop)
	} else {
		err = f.waysDown(ctx, place, letters, stop)
	}
	switch {
	case err == nil:
		return nil, library.ErrNotFound
	case !errors.Is(err, errStop):
		return nil, err
	}
	return f.directory(letters+fanMark, func(ctx context.Context, emit func(library.Node) error) error {
		return f.children(ctx, place, letters, emit)
	}), nil
}

// hostFile returns a file of the host at a place.
func (f *finder) hostFile(ctx context.Context, place, name string) (*library.Entry, error) {
	h, err := f.view.Host(ctx, place)
	if err != nil {
		return nil, err
	}
	if h == nil {
		return nil, library.ErrNotFound
	}
	return h.File(ctx, name)
}

// children lists the directories below a place whose names begin with letters. It divides them by
// more letters if they are many.
func (f *finder) children(ctx context.Context, place, letters string, emit func(library.Node) error) error {
	if !f.view.Scope.Holds(place) {
		return f.waysDown(ctx, place, letters, emit)
	}
	wide, err := f.wide(ctx, place, letters)
	switch {
	case err != nil:
		return err
	case wide:
		return f.fan(ctx, place, letters, emit)
	}
	return level(ctx, f.view, place, letters, emit)
}

// waysDown lists the directories that lead from a place above the account's scope into the scope,
// if their names begin with letters. It looks for these only, and does not read the whole level.
func (f *finder) waysDown(ctx context.Context, place, letters string, emit func(library.Node) error) error {
	last := ""
	for _, root := range f.view.Scope { // sorted, so that the same way down comes together
		rest, ok := strings.CutPrefix(root, place)
		if !ok || !account.Within(root, place) || account.IsPort(rest) {
			continue
		}
		name, below, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		if name == last {
			continue
		}
		last = name
		if strings.HasPrefix(name, letters) {
			switch e, err := f.levelDirectory(ctx, path.Join(place, name)); {
			case err == nil:
				if err := emit(e.Node); err != nil {
					return err
				}
			case !library.IsNotFound(err):
				return err
			}
		}
		if below != "" {
			continue
		}
		ports, err := f.view.OtherPorts(ctx, root)
		if err != nil {
			return err
		}
		for _, c := range ports {
			if !strings.HasPrefix(c.Name, letters) {
				continue
			}
			if err := emit(library.DirectoryNode(c.Name, c.Modified)); err != nil {
				return err
			}
		}
	}
	return nil
}

// A level of the tree with very many entries, such as the hosts of a blog service, is divided by
// first letters. /jp/ne/blog then lists a+, b+ and so on. a+ lists the entries that begin with a
// or, if these are too many, aa+, ab+ and so on.
//
// So a directory has at most Options.Widest entries, and the entries of each are found by a few
// seeks. The plain path /jp/ne/blog/aki/20261121.tar.gz means the same as
// /jp/ne/blog/a+/aki/20261121.tar.gz. Both are always valid, even if the level is not divided. No
// label of a host has a plus.

// fanMark ends the name of a directory that stands for first letters.
const fanMark = "+"

// unfan removes the directories that stand for first letters from a path. If the last element is
// such a directory, letters is the beginning of all names in it.
func unfan(name string) (place, letters string, ok bool) {
	var plain []string
	for part := range strings.SplitSeq(name, "/") {
		begin, isFan := strings.CutSuffix(part, fanMark)
		if !strings.HasPrefix(begin, letters) || isFan && begin == letters {
			return "", "", false
		}
		if isFan {
			letters = begin
			continue
		}
		plain, letters = append(plain, part), ""
	}
	return strings.Join(plain, "/"), letters, true
}

// before returns a name behind which Snapshot.Children has the names that begin with letters.
func before(letters string) string {
	if letters == "" {
		return ""
	}
	last := len(letters) - 1
	return letters[:last] + string(letters[last]-1) + "~" // sorts behind all characters of names
}

// wide reports whether more entries of a level begin with letters than a directory may list.
func (f *finder) wide(ctx context.Context, place, letters string) (bool, error) {
	if !f.view.Scope.Holds(place) {
		return false, nil // of such a level only a few ways down are listed
	}
	key := fmt.Sprintf("wide %d %q %q", f.view.Snap.Version(), place, letters)
	return library.Shared(ctx, f.view, key, func(ctx context.Context, v *library.AccountView) (bool, int64, error) {
		n := 0
		err := level(ctx, v, place, letters, func(library.Node) error {
			if n++; n > f.tree.opt.Widest {
				return errStop
			}
			return nil
		})
		if errors.Is(err, errStop) {
			err = nil
		}
		return n > f.tree.opt.Widest, 128, err
	})
}

// level lists the entries of a level that begin with letters. It never holds all of them.
func level(ctx context.Context, v *library.AccountView, place, letters string, emit func(library.Node) error) error {
	for after := before(letters); ; {
		children, err := v.Snap.Children(ctx, place, after, library.PageSize)
		if err != nil {
			return err
		}
		for _, c := range children {
			if !strings.HasPrefix(c.Name, letters) {
				return nil
			}
			if err := emit(library.DirectoryNode(c.Name, c.Modified)); err != nil {
				return err
			}
			after = c.Name
		}
		if len(children) < library.PageSize {
			return nil
		}
	}
}

// fan divides a level's entries that begin with letters. It lists a directory for each next letter,
// and the entry whose name is just letters.
func (f *finder) fan(ctx context.Context, place, letters string, emit func(library.Node) error) error {
	for after := before(letters); ; {
		next, err := f.view.Snap.Children(ctx, place, after, 1)
		if err != nil {
			return err
		}
		if len(next) == 0 || !strings.HasPrefix(next[0].Name, letters) {
			return nil
		}
		name, modified := next[0].Name, next[0].Modified
		after = name
		if name != letters {
			after = name[:len(letters)+1]
			name, modified = after+fanMark, f.view.Snap.Published()
			after += "~"
		}
		if err := emit(library.DirectoryNode(name, modified)); err != nil {
			return err
		}
	}
}

// shown returns the path under which listings show a place.
func (f *finder) shown(ctx context.Context, place string) (string, error) {
	parts := strings.Split(place, "/")
	var shown []string
	for i, part := range parts {
		dir := path.Join(parts[:i]...)
		for n := range len(part) {
			wide, err := f.wide(ctx, dir, part[:n])
			if err != nil {
				return "", err
			}
			if !wide {
				break
			}
			shown = append(shown, part[:n+1]+fanMark)
		}
		shown = append(shown, part)
	}
	return strings.Join(shown, "/"), nil
}

// cutTexts divides the name of a file with a host's texts into the form and, before it, the name of
// the archive that has the pages.
func cutTexts(file string) (archived, form string, ok bool) {
	for _, form := range VolumeTexts {
		if archived, ok := strings.CutSuffix(file, "."+form); ok && archived != "" {
			return archived, form, true
		}
	}
	return "", "", false
}

// hostTexts returns the texts of one of a host's archives: an edition's, or all. They are taken out
// of the pages when somebody asks for the file, and kept as other long texts are.
func (f *finder) hostTexts(ctx context.Context, place, archived, form string) (*library.Entry, error) {
	h, err := f.view.Host(ctx, place)
	if err != nil {
		return nil, err
	}
	if h == nil || f.tree.opt.Texts == nil {
		return nil, library.ErrNotFound
	}
	of := *h
	h = &of
	h.Segments = slices.DeleteFunc(slices.Clone(of.Segments), func(seg catalog.SegmentEntry) bool { return archived != "all" && seg.Edition != archived })
	if len(h.Segments) == 0 {
		return nil, library.ErrNotFound
	}
	last := h.Segments[len(h.Segments)-1]
	d := library.Document{
		Name: archived + "." + form, Type: mediaOf(form), Modified: h.Modified(last.Published, library.Any, true),
		Key: fmt.Sprintf("texts %d %q %s", f.tree.opt.Version, h.Name, h.Withheld()), Spools: f.view.Archive.Spools,
	}
	for _, seg := range h.Segments {
		d.Key += fmt.Sprintf(" %d", seg.Seq)
	}
	reader := f.view.Account
	d.Write = func(ctx context.Context, w io.Writer) error { return f.tree.opt.Texts(ctx, reader, h, form, w) }
	return d.Entry(ctx, f.view.Archive.Memo)
}

func mediaOf(table string) string {
	if table == api.TextsAsWET {
		return "application/gzip"
	}
	return api.Parquet
}
