package serve

import (
	"context"
	"fmt"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/urlindex"
)

// Cuts divides what a target has into stretches of about as many records each, to be searched one
// by one or at once: it gives the positions at which a stretch ends and the next begins
// (see Search.Until), and how many records there are in all, before any is looked
// at. Domains are cut between hosts, and a host where the URL index covers it; what it does not cover is
// one stretch. It is the same at one version of the catalog and state of the index.
func (r *Results) Cuts(ctx context.Context, target int, records int64) (cuts []Position, total int64, err error) {
	t := r.search.Targets[target]
	switch t.Match {
	case MatchDomain, MatchAll:
	default:
		hosts, err := r.site(ctx, t.Host)
		if err != nil {
			return nil, 0, fmt.Errorf("search %s: %w", t.Host, err)
		}
		return r.cutSite(ctx, hosts, t.keys(), Position{Target: target}, records)
	}
	place := ""
	if t.Match == MatchDomain {
		place = archive.HostPath(t.Host)
	}
	here := int64(0) // records of the stretch so far
	err = r.hostsUnder(ctx, place, "", func(h catalog.HostInfo) error {
		total += h.Records
		if here > 0 && here+h.Records > records {
			cuts, here = append(cuts, Position{Target: target, Host: h.SURT}), 0
		}
		if here += h.Records; here <= records {
			return nil
		}
		found, err := r.host(ctx, archive.HostPath(h.Host))
		if err != nil || found == nil {
			return err
		}
		within, _, err := r.cutSite(ctx, []*host{found}, siteKeys(h.Host), Position{Target: target, Host: h.SURT}, records)
		cuts = append(cuts, within...)
		return err
	})
	return cuts, total, err
}

// cutSite cuts what hosts of one site have within a range of keys.
func (r *Results) cutSite(ctx context.Context, hosts []*host, keys keyRange, at Position, records int64) (cuts []Position, total int64, err error) {
	view, covered := r.urls(ctx), int64(0)
	for _, h := range hosts {
		for i := range h.lines {
			total += h.lines[i].Records
			if view.Covers(h.lines[i].Seq) {
				covered += h.lines[i].Records
			}
		}
	}
	if total <= records || covered == 0 {
		return nil, total, nil
	}
	in := keys.rows(nil, false)
	blocks, err := view.Blocks(ctx, in)
	if err == nil {
		// Of one URL or a prefix these are all of the host's, and the index tells it better.
		total = min(total, total-covered+blocks*urlindex.BlockRows)
		each := records * covered / total / urlindex.BlockRows
		var places []urlindex.Position
		if places, err = view.Split(ctx, in, max(each, 1)); err == nil {
			for _, p := range places {
				at.Key, at.Time = p.Key, p.Time
				cuts = append(cuts, at)
			}
			return cuts, total, nil
		}
	}
	r.Log.ErrorContext(ctx, "URL index not read; the answer is not divided", "err", err)
	return nil, total, ctx.Err()
}
