package tree

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"sheaf/serve/library"
)

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
