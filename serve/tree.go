package serve

import (
	"context"
	"fmt"
	"iter"
	"path"
	"strings"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/account"
)

// page is how many children of a directory are asked for at once.
const page = 1000

// treeDirectory finds a directory of the tree of reversed names.
func (v *visit) treeDirectory(ctx context.Context, place string) (*entry, error) {
	switch exists, err := v.exists(ctx, place); {
	case err != nil:
		return nil, err
	case !exists:
		return nil, ErrNotFound
	}
	modified := v.snap.Published()
	h, err := v.host(ctx, place)
	if err != nil {
		return nil, err
	}
	if h != nil {
		modified = h.modified()
	}
	return v.directory(path.Base(place), modified), nil
}

// exists reports whether the account sees a host at or below a place.
func (v *visit) exists(ctx context.Context, place string) (bool, error) {
	if v.scope.Holds(place) {
		return v.populated(ctx, place)
	}
	for _, root := range v.scope {
		if !account.Within(root, place) {
			continue
		}
		if ok, err := v.populated(ctx, root); ok || err != nil {
			return ok, err
		}
		if ports, err := v.otherPorts(ctx, root); len(ports) > 0 || err != nil {
			return len(ports) > 0, err
		}
	}
	return false, nil
}

// populated reports whether there is a host at or below a place, for anybody.
func (v *visit) populated(ctx context.Context, place string) (bool, error) {
	below, err := v.snap.Children(ctx, place, "", 1)
	if err != nil || len(below) > 0 {
		return len(below) > 0, err
	}
	host, err := archive.HostFromPath(place)
	if err != nil {
		return false, nil // a name that no host has
	}
	lines, err := v.snap.Host(ctx, host)
	return len(lines) > 0, err
}

// otherPorts returns the entries beside a host's own that are the same host on other ports.
func (v *visit) otherPorts(ctx context.Context, place string) ([]catalog.Child, error) {
	dir, base := path.Split(place)
	beside, err := v.snap.Children(ctx, strings.TrimSuffix(dir, "/"), base+"_", page)
	if err != nil {
		return nil, err
	}
	var ports []catalog.Child
	for _, c := range beside {
		if rest, ok := strings.CutPrefix(c.Name, base); ok && c.Leaf && account.IsPort(rest) {
			ports = append(ports, c)
		}
	}
	return ports, nil
}

// treeChildren yields the directories below a place whose names begin with letters,
// fanned out where they are many.
func (v *visit) treeChildren(ctx context.Context, place, letters string) iter.Seq2[Node, error] {
	if !v.scope.Holds(place) {
		return beginning(letters, v.waysDown(ctx, place))
	}
	return func(yield func(Node, error) bool) {
		wide, err := v.wide(ctx, place, letters)
		switch {
		case err != nil:
			yield(Node{}, err)
		case wide:
			v.fan(ctx, place, letters)(yield)
		default:
			v.level(ctx, place, letters)(yield)
		}
	}
}

// waysDown yields, of a place above the account's scope, only the directories
// that lead into the scope: it asks for these and does not search the level.
func (v *visit) waysDown(ctx context.Context, place string) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		last := ""
		for _, root := range v.scope { // sorted, so the same way down comes together
			rest, ok := strings.CutPrefix(root, place)
			if !ok || !account.Within(root, place) || account.IsPort(rest) {
				continue
			}
			name, below, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
			if name == last {
				continue
			}
			last = name
			e, err := v.find(ctx, path.Join("/", place, name))
			switch {
			case err == nil:
				if !yield(e.Node, nil) {
					return
				}
			case !isNotFound(err):
				yield(Node{}, err)
				return
			}
			if below != "" {
				continue
			}
			ports, err := v.otherPorts(ctx, root)
			if err != nil {
				yield(Node{}, err)
				return
			}
			for _, c := range ports {
				if !yield(v.directory(c.Name, c.Modified).Node, nil) {
					return
				}
			}
		}
	}
}

// host returns the host at a place as the account sees it; nil where there is none.
func (v *visit) host(ctx context.Context, place string) (*host, error) {
	if !v.scope.Holds(place) {
		return nil, nil
	}
	name, err := archive.HostFromPath(place)
	if err != nil {
		return nil, nil // a name that no host has
	}
	lines, err := v.snap.Host(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", name, err)
	}
	if len(lines) == 0 {
		return nil, nil
	}
	return v.hostOf(name, place, lines), nil
}
