package tree

import (
	"context"
	"fmt"
	"iter"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// Collections returns the collections of which the account sees something, by name, with the sums
// of what it sees.
func (t *Tree) Collections(ctx context.Context, a *account.Account) ([]catalog.ImportedCollection, error) {
	v, err := t.opt.Archive.View(ctx, a)
	if err != nil {
		return nil, err
	}
	defer v.Release()
	key := fmt.Sprintf("collections %d", v.Snap.Version())
	return library.Shared(ctx, v, key, func(ctx context.Context, v *library.AccountView) ([]catalog.ImportedCollection, int64, error) {
		all, err := catalog.Collections(ctx, v.Snap)
		if err != nil {
			return nil, 0, err
		}
		cost := int64(0)
		list := make([]catalog.ImportedCollection, 0, len(all))
		for _, c := range all {
			if err := c.Sum(seenOf(ctx, v, c)); err != nil {
				return nil, 0, err
			}
			if c.Segments > 0 {
				const editionCost = 40 // bytes in memory
				list = append(list, c)
				cost += int64(len(c.Source) + len(c.Licence) + editionCost*len(c.Editions))
			}
		}
		return list, cost, nil
	})
}

// seenOf yields a collection's entries that lie in the account's scope.
func seenOf(ctx context.Context, v *library.AccountView, c catalog.ImportedCollection) iter.Seq2[catalog.SegmentEntry, error] {
	return func(yield func(catalog.SegmentEntry, error) bool) {
		for _, root := range v.Scope {
			for l, err := range c.Entries(ctx, v.Snap, account.KeyPrefix(root)) {
				if (err != nil || account.Within(naming.HostPath(l.Host), root)) && !yield(l, err) {
					return
				}
			}
		}
	}
}
