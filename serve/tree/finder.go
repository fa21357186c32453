package tree

import (
	"context"
	"errors"
	"fmt"

	"sheaf/serve/library"
)

// The names of the texts at the root and of the editions, besides those of package library.
const (
	fileReadme  = "README"
	fileLatest  = "LATEST"
	fileHosts   = "HOSTS"
	fileListing = "ls-lR.gz"
)

// finder finds paths in one view.
type finder struct {
	tree *Tree
	view *library.AccountView
}

// errStop ends a listing before its end.
var errStop = errors.New("stop")

// directory returns the entry of a directory that may have changed with the version.
func (f *finder) directory(name string, list library.List) *library.Entry {
	return library.Directory(name, f.view.Snap.Published(), list)
}

// listNames emits the node that find finds for each name. It ends with the first error.
func listNames(ctx context.Context, names []string, emit func(library.Node) error, find func(context.Context, string) (*library.Entry, error)) error {
	for _, name := range names {
		e, err := find(ctx, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := emit(e.Node); err != nil {
			return err
		}
	}
	return nil
}

// always lets an entry be read while the account's window is closed.
func always(e *library.Entry, err error) (*library.Entry, error) {
	if err == nil {
		e.Always = true
	}
	return e, err
}
