package records

import (
	"context"
	"fmt"
	"math"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/archive/urlindex"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// A page is pageSize blocks of blockRecords searched records, as in a ZipNum index of the Internet
// Archive. The other constants are the limit and the default of pageSize.
const (
	blockRecords = 3000
	defaultPage  = 5
	maxPage      = 33 // so that MaxLimit lines are enough for a page
)

// paging is the requested page.
type paging struct {
	one    bool // only the page with the number, from 0
	number int
	size   int // in blocks
	count  bool
}

// Pages is the number of pages, in pywb's form.
type Pages struct {
	Blocks   int64 `json:"blocks"`
	Pages    int   `json:"pages"`
	PageSize int   `json:"pageSize"`
}

// CountsPages reports whether the query only asks for the number of pages.
func (q *Query) CountsPages() bool { return q.pages.count }

// Paged reports whether the query asks for one page.
func (q *Query) Paged() bool { return q.pages.one }

func (p *parser) paging() {
	q, of := p.query, &p.query.pages
	of.number, of.size = -1, defaultPage
	set(p, "page", &of.number, number(math.MinInt, math.MaxInt, "want a number, from 0"))
	of.one = of.number >= 0 // a negative number means no paging, as at the Internet Archive
	set(p, "pageSize", &of.size, number(1, maxPage, fmt.Sprintf("want a number from 1 to %d, of blocks of %d records", maxPage, blockRecords)))
	p.flag("showNumPages", &of.count)
	for name, asked := range map[string]bool{"page": of.one, "showNumPages": of.count} {
		p.refuse(name, asked && len(q.Search.Targets) != 1, "does not work with a list of targets")
		p.refuse(name, asked && (q.Search.Reverse || q.latest || !q.closest.IsZero() || q.counters.dupes), "cannot be combined with sort, closest, latest, showDupeCount and the last lines")
	}
}

// Pages returns the number of pages of the query. It depends on the records to be searched, not on
// filters, and is known before the search.
func (q *Query) Pages(ctx context.Context, from *Records, a *account.Account) (Pages, error) {
	cuts, total, err := q.cut(ctx, from, a)
	if err != nil {
		return Pages{}, err
	}
	return Pages{Blocks: (total + blockRecords - 1) / blockRecords, Pages: len(cuts) + 1, PageSize: q.pages.size}, nil
}

func (q *Query) cut(ctx context.Context, from *Records, a *account.Account) (cuts []Position, total int64, err error) {
	results, err := from.Search(ctx, a, q.Search)
	if err != nil {
		return nil, 0, err
	}
	defer results.Close()
	return results.Split(ctx, 0, int64(q.pages.size)*blockRecords)
}

// bound limits a search to the requested page. It returns false if there is no such page. A cursor
// has the end of its page.
func (q *Query) bound(ctx context.Context, from *Records, a *account.Account, search *Search) (ok bool, err error) {
	if q.Cursor != nil {
		search.Until = q.Cursor.Until
		return true, nil
	}
	if !q.Paged() {
		return true, nil
	}
	cuts, _, err := q.cut(ctx, from, a)
	n := q.pages.number
	if err != nil || n > len(cuts) {
		return false, err
	}
	if n > 0 {
		search.After = &cuts[n-1]
	}
	if n < len(cuts) {
		search.Until = &cuts[n]
	}
	return true, nil
}

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
