package tree

import (
	"context"
	"encoding/base64"
	"fmt"
	"iter"
	"strings"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// Hosts returns up to limit hosts of the account's scope whose keys begin with prefix, such as
// "jp,ac,", in the order of the tree. It begins at cursor; an empty one is the beginning. next is
// the cursor of the rest, empty at the end.
func (t *Tree) Hosts(ctx context.Context, a *account.Account, prefix, cursor string, limit int) (hosts []catalog.HostInfo, next string, err error) {
	at, err := parseHostCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	v, err := t.opt.Archive.View(ctx, a)
	if err != nil {
		return nil, "", err
	}
	defer v.Release()
	for _, root := range v.Scope {
		if root < at.root {
			continue
		}
		if root > at.root {
			at = hostCursor{root: root}
		}
		key := account.KeyPrefix(root)
		switch {
		case strings.HasPrefix(key, prefix):
		case strings.HasPrefix(prefix, key):
			key = prefix
		default:
			continue
		}
		for more := true; more; {
			page, err := v.Snap.Hosts(ctx, key, at.after, library.PageSize)
			if err != nil {
				return nil, "", fmt.Errorf("hosts: %w", err)
			}
			for _, h := range page {
				if account.Within(naming.HostPath(h.Host), root) {
					if len(hosts) == limit {
						return hosts, at.String(), nil
					}
					hosts = append(hosts, h)
				}
				at.after = h.SURT
			}
			more = len(page) == library.PageSize
		}
	}
	return hosts, "", nil
}

// Editions returns all editions, oldest first.
func (t *Tree) Editions(ctx context.Context) ([]catalog.Edition, error) {
	snap, err := t.opt.Archive.Catalog.Pin(ctx)
	if err != nil {
		return nil, fmt.Errorf("editions: %w", err)
	}
	defer snap.Release()
	return snap.Editions(ctx)
}

// Version returns the number of the catalog's newest version.
func (t *Tree) Version(ctx context.Context) (int64, error) {
	snap, err := t.opt.Archive.Catalog.Pin(ctx)
	if err != nil {
		return 0, fmt.Errorf("version: %w", err)
	}
	defer snap.Release()
	return snap.Version(), nil
}

// hostCursor is a place in the list of hosts: behind a key, within one place of the scope.
type hostCursor struct{ root, after string }

func (c hostCursor) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(c.root + "\x00" + c.after))
}

func parseHostCursor(text string) (hostCursor, error) {
	if text == "" {
		return hostCursor{}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	root, after, ok := strings.Cut(string(raw), "\x00")
	if err != nil || !ok {
		return hostCursor{}, fmt.Errorf("%w: %.80q", library.ErrCursor, text)
	}
	return hostCursor{root, after}, nil
}

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
