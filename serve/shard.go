package serve

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
)

// The texts of an edition that brought very many hosts are listed in shards of
// Options.Widest hosts each, in the order of their keys: /editions/20261121/00001/HOSTS
// and so on. What is shown to an account is divided by what it may see.

// span is a shard: the keys of hosts behind from, up to to. An empty one has no bound.
type span struct{ from, to string }

// shards divides an edition; nil where it is not divided.
func (v *visit) shards(ctx context.Context, ed catalog.Edition) ([]span, error) {
	if ed.Hosts <= int64(v.Widest) {
		return nil, nil
	}
	// Where to cut stays as it is for as long as this is remembered. Take-downs make shards smaller.
	key := fmt.Sprintf("shards %q %q", ed.Name, v.scope)
	return recall(ctx, v.cache, key, func(ctx context.Context) (spans []span, cost int64, err error) {
		n, last := 0, ""
		for h, err := range v.editionHosts(ctx, ed.Name, span{}) {
			if err != nil {
				return nil, 0, err
			}
			if n > 0 && n%v.Widest == 0 {
				from := ""
				if len(spans) > 0 {
					from = spans[len(spans)-1].to
				}
				spans = append(spans, span{from, last})
			}
			n, last = n+1, catalog.Key(h.name)
		}
		if len(spans) > 0 {
			spans = append(spans, span{from: spans[len(spans)-1].to})
		}
		return spans, int64(64 + 128*len(spans)), nil
	})
}

func shardName(i int) string { return fmt.Sprintf("%05d", i+1) }

// shard finds a shard by its name.
func (v *visit) shard(ctx context.Context, ed catalog.Edition, name string) (span, error) {
	spans, err := v.shards(ctx, ed)
	if err != nil {
		return span{}, err
	}
	if i, err := strconv.Atoi(name); err == nil && i >= 1 && i <= len(spans) && shardName(i-1) == name {
		return spans[i-1], nil
	}
	return span{}, ErrNotFound
}

// editionHosts yields the hosts of an edition's shard within the scope, in the order of
// their keys, each with what the edition brought of it.
func (v *visit) editionHosts(ctx context.Context, edition string, within span) iter.Seq2[*host, error] {
	return v.hostsOf(v.editionLines(ctx, edition, within))
}

// hostsOf yields the hosts that lines are of, each with its lines, which follow one another.
func (v *visit) hostsOf(all iter.Seq2[catalog.SegmentEntry, error]) iter.Seq2[*host, error] {
	return func(yield func(*host, error) bool) {
		var lines []catalog.SegmentEntry // of one host
		flush := func() bool {
			if len(lines) == 0 {
				return true
			}
			name := lines[0].Host
			ok := yield(v.hostOf(name, archive.HostPath(name), lines), nil)
			lines = nil
			return ok
		}
		for l, err := range all {
			if err != nil {
				yield(nil, err)
				return
			}
			if len(lines) > 0 && lines[0].Host != l.Host && !flush() {
				return
			}
			lines = append(lines, l)
		}
		flush()
	}
}

// editionLines walks the parts of an edition that belong to the scope.
func (v *visit) editionLines(ctx context.Context, edition string, within span) iter.Seq2[catalog.SegmentEntry, error] {
	var roots []string // as keys
	for _, root := range v.scope {
		roots = append(roots, account.KeyPrefix(root))
	}
	slices.Sort(roots)
	return func(yield func(catalog.SegmentEntry, error) bool) {
		after := within.from
		for _, root := range roots {
			for l, err := range v.snap.EditionAfter(ctx, edition, max(after, before(root))) {
				if err != nil {
					yield(l, err)
					return
				}
				key := catalog.Key(l.Host)
				if within.to != "" && key > within.to || !strings.HasPrefix(key, root) {
					break
				}
				after = key
				if v.scope.Holds(archive.HostPath(l.Host)) && !yield(l, nil) {
					return
				}
			}
		}
	}
}
