package tree

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/account"
	"sheaf/serve/content"
	"sheaf/serve/visible"
)

// The texts of an edition with very many hosts are divided into shards of Options.Widest hosts each,
// in the order of their keys: /editions/20261121/00001/HOSTS and so on. What an account sees of the
// edition is divided, and not the whole edition.

// span is the hosts of a shard: those with keys above from, up to to. An empty key is no bound.
type span struct{ from, to string }

// shards returns the shards of an edition; nil if it is not divided.
func (f *finder) shards(ctx context.Context, ed catalog.Edition) ([]span, error) {
	if ed.Hosts <= int64(f.tree.opt.Widest) {
		return nil, nil
	}
	// The bounds stay as they are while they are cached. Take-downs make the shards smaller.
	key := fmt.Sprintf("shards %q %q", ed.Name, f.view.Scope)
	return visible.Shared(ctx, f.view, f.view.Archive.Memo, key, func(ctx context.Context, v *visible.AccountView) (spans []span, cost int64, err error) {
		n, from, last := 0, "", ""
		for h, err := range editionHosts(ctx, v, ed.Name, span{}) {
			if err != nil {
				return nil, 0, err
			}
			if n > 0 && n%f.tree.opt.Widest == 0 {
				spans = append(spans, span{from, last})
				from = last
			}
			n, last = n+1, catalog.Key(h.Name)
		}
		if len(spans) > 0 {
			spans = append(spans, span{from: from})
		}
		return spans, int64(64 + 128*len(spans)), nil
	})
}

// shardNames returns the names of the first n shards of an edition.
func shardNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%05d", i+1))
	}
	return names
}

// shard returns the shard of a name.
func (f *finder) shard(ctx context.Context, ed catalog.Edition, name string) (span, error) {
	spans, err := f.shards(ctx, ed)
	if err != nil {
		return span{}, err
	}
	if i, err := strconv.Atoi(name); err == nil && i >= 1 && i <= len(spans) && fmt.Sprintf("%05d", i) == name {
		return spans[i-1], nil
	}
	return span{}, content.ErrNotFound
}

// editionHosts yields the hosts of a part of an edition that the account sees, in the order of their
// keys, each with what the edition brought of it.
func editionHosts(ctx context.Context, v *visible.AccountView, edition string, part span) iter.Seq2[*visible.Host, error] {
	return v.HostsOf(editionSegments(ctx, v, edition, part))
}

func editionSegments(ctx context.Context, v *visible.AccountView, edition string, part span) iter.Seq2[catalog.SegmentEntry, error] {
	var prefixes []string // of the keys in the account's scope
	for _, root := range v.Scope {
		prefixes = append(prefixes, account.KeyPrefix(root))
	}
	slices.Sort(prefixes)
	return func(yield func(catalog.SegmentEntry, error) bool) {
		after := part.from
		for _, prefix := range prefixes {
			for seg, err := range v.Snap.EditionAfter(ctx, edition, max(after, before(prefix))) {
				if err != nil {
					yield(seg, err)
					return
				}
				key := catalog.Key(seg.Host)
				if part.to != "" && key > part.to || !strings.HasPrefix(key, prefix) {
					break
				}
				after = key
				if v.Scope.Holds(archive.HostPath(seg.Host)) && !yield(seg, nil) {
					return
				}
			}
		}
	}
}
