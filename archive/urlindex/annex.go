package urlindex

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"sheaf/archive/store"
)

// Annex is the index as the catalog's collection and fsck see it: a catalog.CheckedAnnex.
type Annex struct {
	store   store.Store
	tempDir string
}

// NewAnnex gives the index in a store; tempDir is where a check sorts, the system's if empty.
func NewAnnex(st store.Store, tempDir string) *Annex { return &Annex{st, tempDir} }

// Prefix begins the keys of the index's objects.
func (a *Annex) Prefix() string { return KeyPrefix }

// Needs tells which objects are needed: the log, and the runs of its newest state. A builder names a
// run within hours of storing it, or never.
func (a *Annex) Needs(ctx context.Context) (func(key string) bool, error) {
	log := statesOf(a.store)
	n, err := log.Last(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("URL index: %w", err)
	}
	e, err := log.read(ctx, n)
	if errors.Is(err, ErrCorrupt) {
		return func(string) bool { return true }, nil // the builder begins anew, and then nothing of this is needed
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
