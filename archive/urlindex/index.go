package urlindex

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"sheaf/archive/store"
)

// Index lets the catalog's Collect and Fsck handle the URL index. It implements
// catalog.DerivedIndex.
type Index struct{ store store.Store }

// NewIndex returns the index in a store.
func NewIndex(st store.Store) *Index { return &Index{st} }

// Prefix returns KeyPrefix, for catalog.DerivedIndex.
func (a *Index) Prefix() string { return KeyPrefix }

// Needs returns a function that reports whether an object is needed. The whole log is needed, and
// the runs of its newest state. A run that a builder has just stored is in no state yet. A state
// names it within hours (see maxAge), or never.
func (a *Index) Needs(ctx context.Context) (func(key string) bool, error) {
	log := statesOf(a.store)
	n, err := log.Last(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("URL index: %w", err)
	}
	e, err := log.read(ctx, n)
	if errors.Is(err, ErrCorrupt) {
		return func(string) bool { return true }, nil // the builder will build a new index, and then needs none of the old objects
	}
	if err != nil {
		return nil, fmt.Errorf("URL index: %w", err)
	}
	live := make(map[string]bool)
	for _, r := range e.Runs {
		live[r.Name] = true
	}
	return func(key string) bool {
		return !strings.HasPrefix(key, runPrefix) || live[path.Dir(key)]
	}, nil
}
