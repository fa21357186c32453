package serve

import (
	"context"
	"fmt"
	"iter"
	"path"
	"strings"
)

// A level of the tree with very many entries, such as the hosts of a blog service,
// is shown fanned out by first letters: /jp/ne/blog lists a+, b+, …; a+ lists the
// entries that begin with a or, where these are too many, aa+, ab+, …
//
// So a directory has Options.Widest entries at most, and the entries of each are
// found by a few seeks. The plain path, /jp/ne/blog/aki/20261121.tar.gz, means the
// same as the one through the fan, /jp/ne/blog/a+/aki/20261121.tar.gz: always, also
// where nothing is fanned out. No label of a host has a plus.

// fanMark ends the name of a directory of the fan.
const fanMark = "+"

// unfan takes the fan's directories out of a path. Letters are what names below it
// must begin with, where the path is that of a directory of the fan.
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

// before is a name behind which, in Catalog.Children, the names begin that begin with letters.
func before(letters string) string {
	if letters == "" {
		return ""
	}
	last := len(letters) - 1
	return letters[:last] + string(letters[last]-1) + "~" // sorts behind all that names may hold
}

// wide reports whether more entries of a level begin with letters than a directory may list.
func (v *visit) wide(ctx context.Context, place, letters string) (bool, error) {
	if !v.scope.Holds(place) {
		return false, nil // of these only a few ways down are shown
	}
	key := fmt.Sprintf("wide %d %q %q", v.snap.Version(), place, letters)
	return recall(ctx, v.cache, key, func(ctx context.Context) (bool, int64, error) {
		n := 0
		for _, err := range v.level(ctx, place, letters) {
			if err != nil {
				return false, 0, err
			}
			if n++; n > v.Widest {
				break
			}
		}
		return n > v.Widest, 128, nil
	})
}

// level yields the entries of a level that begin with letters. It is never held as a whole.
func (v *visit) level(ctx context.Context, place, letters string) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		for after := before(letters); ; {
			children, err := v.snap.Children(ctx, place, after, page)
			if err != nil {
				yield(Node{}, err)
				return
			}
			for _, c := range children {
				if !strings.HasPrefix(c.Name, letters) || !yield(v.directory(c.Name, c.Modified).Node, nil) {
					return
				}
				after = c.Name
			}
			if len(children) < page {
				return
			}
		}
	}
}

// fan yields the directories that divide the entries of a level that begin with
// letters, and the one entry that has no more letters.
func (v *visit) fan(ctx context.Context, place, letters string) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		for after := before(letters); ; {
			next, err := v.snap.Children(ctx, place, after, 1)
			if err != nil {
				yield(Node{}, err)
				return
			}
			if len(next) == 0 || !strings.HasPrefix(next[0].Name, letters) {
				return
			}
			name, modified := next[0].Name, next[0].Modified
			after = name
			if name != letters {
				after = name[:len(letters)+1]
				name, modified = after+fanMark, v.snap.Published()
				after += "~"
			}
			if !yield(v.directory(name, modified).Node, nil) {
				return
			}
		}
	}
}

// beginning yields the nodes whose names begin with letters.
func beginning(letters string, nodes iter.Seq2[Node, error]) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		for n, err := range nodes {
			if (err != nil || strings.HasPrefix(n.Name, letters)) && !yield(n, err) {
				return
			}
		}
	}
}

// fanDirectory finds a directory of the fan: where any entry begins with letters.
func (v *visit) fanDirectory(ctx context.Context, place, letters string) (*entry, error) {
	nodes := beginning(letters, v.waysDown(ctx, place))
	if v.scope.Holds(place) {
		nodes = v.level(ctx, place, letters)
	}
	for _, err := range nodes {
		if err != nil {
			return nil, err
		}
		return v.directory(letters+fanMark, v.snap.Published()), nil
	}
	return nil, ErrNotFound
}

// shown is the path under which listings show a place.
func (v *visit) shown(ctx context.Context, place string) (string, error) {
	parts := strings.Split(place, "/")
	var shown []string
	for i, part := range parts {
		level := path.Join(parts[:i]...)
		for n := 0; n < len(part); n++ {
			wide, err := v.wide(ctx, level, part[:n])
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
