package records

import (
	"context"
	"fmt"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/archive/urlindex"
	"sheaf/serve/library"
)

// Split divides a target into parts of about as many records each, which may be searched one by one
// or at once. It returns the positions at which a part ends and the next begins (see Search.Until),
// and about how many records the target has. It looks at no record. Domains are divided between
// hosts, and hosts where the URL index covers them; records of a host that it does not cover are in
// one part. The result is the same for one version of the catalog and one state of the index.
func (r *Results) Split(ctx context.Context, target int, records int64) (cuts []Position, total int64, err error) {
	t := r.search.Targets[target]
	switch t.Match {
	case library.MatchDomain, library.MatchAll:
	default:
		hosts, err := siteHosts(ctx, r.view, t.Host)
		if err != nil {
			return nil, 0, fmt.Errorf("search %s: %w", t.Host, err)
		}
		return r.splitSite(ctx, hosts, keysOf(t), Position{Target: target}, records)
	}
	place := ""
	if t.Match == library.MatchDomain {
		place = naming.HostPath(t.Host)
	}
	here := int64(0) // number of records in the part so far
	err = r.view.HostsUnder(ctx, place, "", func(h catalog.HostInfo) error {
		total += h.Records
		if here > 0 && here+h.Records > records {
			cuts, here = append(cuts, Position{Target: target, Host: h.SURT}), 0
		}
		if here += h.Records; here <= records {
			return nil
		}
		found, err := r.view.Host(ctx, naming.HostPath(h.Host))
		if err != nil || found == nil {
			return err
		}
		within, _, err := r.splitSite(ctx, []*library.Host{found}, siteKeys(h.Host), Position{Target: target, Host: h.SURT}, records)
		cuts = append(cuts, within...)
		return err
	})
	return cuts, total, err
}

// splitSite is Split for one site's hosts, within a range of keys.
func (r *Results) splitSite(ctx context.Context, hosts []*library.Host, keys keyRange, at Position, records int64) (cuts []Position, total int64, err error) {
	view, covered := r.finder.index(ctx), int64(0)
	for _, h := range hosts {
		for i := range h.Segments {
			total += h.Segments[i].Records
			if view.Covers(h.Segments[i].Seq) {
				covered += h.Segments[i].Records
			}
		}
	}
	if total <= records || covered == 0 {
		return nil, total, nil
	}
	in := keys.rows(nil, false)
	blocks, err := view.Blocks(ctx, in)
	if err == nil {
		// For one URL or a prefix, total is too large, and the index knows better.
		total = min(total, total-covered+blocks*urlindex.BlockRows)
		each := records * covered / total / urlindex.BlockRows
		var places []urlindex.Position
		if places, err = view.Split(ctx, in, max(each, 1)); err == nil {
			for _, p := range places {
				at.Position = p
				cuts = append(cuts, at)
			}
			return cuts, total, nil
		}
	}
	r.finder.records.archive.Log.ErrorContext(ctx, "URL index not read; the answer is not divided", "err", err)
	return nil, total, ctx.Err()
}
