package serve

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/account"
)

// ErrCursor says that a cursor is none that Hosts gave.
var ErrCursor = errors.New("cursor is not one that this service gave")

// Hosts returns up to limit hosts of the account's scope whose keys begin with
// prefix, such as "jp,ac,", in the order of the tree, from where cursor says on;
// an empty one is the beginning. Next is the cursor for more, empty at the end.
func (l *Library) Hosts(ctx context.Context, a *account.Account, prefix, cursor string, limit int) (hosts []catalog.HostInfo, next string, err error) {
	at, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	v, err := l.visit(ctx, a)
	if err != nil {
		return nil, "", err
	}
	defer v.snap.Release()
	for _, root := range v.scope {
		if root < at.root {
			continue
		}
		if root > at.root {
			at.after = ""
		}
		at.root = root
		key := account.KeyPrefix(root)
		switch {
		case strings.HasPrefix(key, prefix):
		case strings.HasPrefix(prefix, key):
			key = prefix
		default:
			continue
		}
		for {
			some, err := v.snap.Hosts(ctx, key, at.after, page)
			if err != nil {
				return nil, "", fmt.Errorf("hosts: %w", err)
			}
			for _, h := range some {
				if account.Within(archive.HostPath(h.Host), root) {
					if len(hosts) == limit {
						return hosts, at.String(), nil
					}
					hosts = append(hosts, h)
				}
				at.after = h.SURT
			}
			if len(some) < page {
				break
			}
		}
	}
	return hosts, "", nil
}

// Editions returns what was published, oldest first.
func (l *Library) Editions(ctx context.Context) ([]catalog.Edition, error) {
	snap, err := l.Catalog.Pin(ctx)
	if err != nil {
		return nil, fmt.Errorf("editions: %w", err)
	}
	defer snap.Release()
	return snap.Editions(ctx)
}

// Version returns the number of the catalog's newest version.
func (l *Library) Version(ctx context.Context) (int64, error) {
	snap, err := l.Catalog.Pin(ctx)
	if err != nil {
		return 0, fmt.Errorf("version: %w", err)
	}
	defer snap.Release()
	return snap.Version(), nil
}

// cursor is a place in the list of hosts: behind a key, within one of the scope's roots.
type cursor struct{ root, after string }

func (c cursor) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(c.root + "\x00" + c.after))
}

func parseCursor(text string) (cursor, error) {
	if text == "" {
		return cursor{}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	root, after, ok := strings.Cut(string(raw), "\x00")
	if err != nil || !ok {
		return cursor{}, fmt.Errorf("%w: %.80q", ErrCursor, text)
	}
	return cursor{root, after}, nil
}
