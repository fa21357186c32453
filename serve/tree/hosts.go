package tree

import (
	"context"
	"encoding/base64"
	"fmt"
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
