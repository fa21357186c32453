package urlindex

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"sheaf/archive/store"
)

// DerivedIndex is the index as the catalog's collection and fsck see it. It implements
// catalog.CheckedIndex.
type Index struct {
	store   store.Store
	tempDir string
}

// NewIndex returns the index in a store. tempDir is where a check sorts; empty means the system's.
func NewIndex(st store.Store, tempDir string) *Index { return &Index{st, tempDir} }

// Prefix returns the prefix of the keys of the index's objects.
func (a *Index) Prefix() string { return KeyPrefix }

// Needs returns a function that reports whether an object is needed: all of the log is, and the
// runs of its newest state. A run that a builder has just stored is not in a state yet; it will be
// within hours (see maxAge), or never.
func (a *Index) Needs(ctx context.Context) (func(key string) bool, error) {
	log := statesOf(a.store)
	n, err := log.Last(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("URL index: %w", err)
	}
	e, err := log.read(ctx, n)
	if errors.Is(err, ErrCorrupt) {
		return func(string) bool { return true }, nil // the builder will start again, and then needs none of this
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
