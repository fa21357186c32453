package tree

import (
	"context"
	"errors"
	"fmt"

	"sheaf/serve/content"
	"sheaf/serve/visible"
)

// The names of the texts at the root and of the editions, besides those of package archives.
const (
	fileReadme  = "README"
	fileLatest  = "LATEST"
	fileHosts   = "HOSTS"
	fileListing = "ls-lR.gz"
)

// finder finds paths in one view.
type finder struct {
	tree *Tree
	view *visible.AccountView
}

// errStop ends a listing of which no more is wanted.
var errStop = errors.New("stop")

// directory returns the entry of a directory that may have changed with the version.
func (f *finder) directory(name string, list content.List) *content.Entry {
	return content.Directory(name, f.view.Snap.Published(), list)
}

// listNames lists names that find finds. It ends with the first error.
func listNames(ctx context.Context, names []string, emit func(content.Node) error, find func(context.Context, string) (*content.Entry, error)) error {
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
func always(e *content.Entry, err error) (*content.Entry, error) {
	if err == nil {
		e.Always = true
	}
	return e, err
}
