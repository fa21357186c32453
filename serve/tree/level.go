package tree

import (
	"context"
	"errors"
	"path"
	"strings"

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
