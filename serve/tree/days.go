package tree

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"sheaf/archive/catalog"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

const dirDays = "days"

// Days returns the days on which something was published, the oldest first.
func (t *Tree) Days(ctx context.Context) ([]string, error) {
	editions, err := t.Editions(ctx)
	return daysOf(editions), err
}

// daysOf returns the days of editions, sorted, each once.
func daysOf(editions []catalog.Edition) (days []string) {
	for _, ed := range editions {
		days = append(days, catalog.DayOf(ed.Name))
	}
	slices.Sort(days)
	return slices.Compact(days)
}

// publishedDay is a day on which something was published, and the time of its last publication.
type publishedDay struct {
	name string
	last time.Time
}

// days returns the days on which something was published, the oldest first. It keeps them for the
// version: there may be 1,440 editions a day.
func (f *finder) days(ctx context.Context) ([]publishedDay, error) {
	return library.SharedByAll(ctx, f.view, fmt.Sprintf("days %d", f.view.Snap.Version()), func(ctx context.Context, v *library.AccountView) (days []publishedDay, cost int64, err error) {
		editions, err := v.Snap.Editions(ctx)
		last := make(map[string]time.Time)
		for _, ed := range editions {
			last[catalog.DayOf(ed.Name)] = ed.Published
		}
		for _, day := range daysOf(editions) {
			days = append(days, publishedDay{day, last[day]})
		}
		return days, int64(64 * len(days)), err
	})
}

// findDay finds a path below /days. It has a directory for each day on which something was
// published, which has one for each domain, with the files of the domain's volumes. A day on which
// something was only withdrawn has a directory too, which /days does not list.
func (f *finder) findDay(ctx context.Context, name string) (*library.Entry, error) {
	if name == "" {
		return f.directory(dirDays, f.listDays), nil
	}
	day, rest, _ := strings.Cut(name, "/")
	editions, err := f.view.Snap.DayEditions(ctx, day)
	if err == nil && len(editions) == 0 {
		editions, err = f.withdrawnOnly(ctx, day)
	}
	switch {
	case err != nil:
		return nil, err
	case len(editions) == 0:
		return nil, library.ErrNotFound
	}
	of := source{name: day, editions: editions, place: rest}
	if rest == "" {
		return library.Directory(day, of.published(), func(ctx context.Context, emit func(library.Node) error) error {
			return f.listDomains(ctx, day, editions, emit)
		}), nil
	}
	if dir, base := path.Split(rest); dir != "" {
		in := of
		in.place = strings.TrimSuffix(dir, "/")
		if err := f.exists(ctx, in); err != nil {
			return nil, err
		}
		if volume, table, ok := cutTable(base); ok {
			return f.findTable(ctx, in, volume, table)
		}
		if base == fileChanges || base == fileChangesTable {
			return f.changes(ctx, in, base)
		}
		if e, err := f.volumesFile(ctx, in, base); !library.IsNotFound(err) {
			return e, err
		}
	}
	if err := f.exists(ctx, of); err != nil {
		return nil, err
	}
	return f.volumesDirectory(ctx, of)
}

// exists fails with library.ErrNotFound if no host is at or below the place of a day's domain, and
// none was withdrawn. It is a quick test before each edition of the day is searched.
func (f *finder) exists(ctx context.Context, of source) error {
	if ok, err := f.view.Exists(ctx, of.place); ok || err != nil {
		return err
	}
	if ports, err := f.view.OtherPorts(ctx, of.place); len(ports) > 0 || err != nil {
		return err
	}
	return f.withdrew(ctx, of)
}

// withdrew fails with library.ErrNotFound unless something of a domain was withdrawn on the day and
// the account may know of it.
func (f *finder) withdrew(ctx context.Context, of source) error {
	keys, err := f.withdrawn(ctx, of.name)
	within := func(key string) bool { return account.Within(strings.ReplaceAll(key, ",", "/"), of.place) }
	if err == nil && !slices.ContainsFunc(keys, within) {
		err = library.ErrNotFound
	}
	return err
}

// expired fails with library.ErrNotFound unless something of a day's domain has expired and the
// account may know of it.
func (f *finder) expired(ctx context.Context, of source) error {
	last := of.editions[len(of.editions)-1]
	key := fmt.Sprintf("expired %q %q %q %d", of.name, of.place, last.Name, f.view.Snap.Withdrawals())
	some, err := library.Shared(ctx, f.view, key, func(ctx context.Context, v *library.AccountView) (bool, int64, error) {
		hosts, err := (&finder{f.tree, v}).changedHosts(ctx, of)
		for _, host := range hosts {
			history, err := v.Snap.History(ctx, host)
			if err != nil || history.Expired(of.name, v.Veil) {
				return err == nil, 128, err
			}
		}
		return false, 128, err
	})
	if err == nil && !some {
		err = library.ErrNotFound
	}
	return err
}

func (f *finder) listDays(ctx context.Context, emit func(library.Node) error) error {
	days, err := f.days(ctx)
	if err != nil {
		return err
	}
	for _, day := range days {
		if err := emit(library.DirectoryNode(day.name, day.last)); err != nil {
			return err
		}
	}
	return nil
}

// listDomains lists the top-level domains that a day's editions, or the day's withdrawals, have for
// the account.
func (f *finder) listDomains(ctx context.Context, day string, editions []catalog.Edition, emit func(library.Node) error) error {
	last := make(map[string]catalog.Edition) // by domain
	withdrawn, err := f.withdrawn(ctx, day)
	if err != nil {
		return err
	}
	for _, key := range withdrawn {
		last[domainOf(key)] = editions[0]
	}
	for _, ed := range editions {
		if catalog.DayOf(ed.Name) != day {
			break // nothing was published on the day
		}
		domains, err := f.domainsOf(ctx, ed)
		if err != nil {
			return err
		}
		for _, domain := range domains {
			last[domain] = ed
		}
	}
	for _, domain := range slices.Sorted(maps.Keys(last)) {
		if err := emit(library.DirectoryNode(domain, last[domain].Published)); err != nil {
			return err
		}
	}
	return nil
}

// domainsOf returns the top-level domains in which an edition has something for the account.
func (f *finder) domainsOf(ctx context.Context, ed catalog.Edition) ([]string, error) {
	key := fmt.Sprintf("domains %d %q", f.view.Snap.Withdrawals(), ed.Name)
	return library.Shared(ctx, f.view, key, func(ctx context.Context, v *library.AccountView) (domains []string, cost int64, err error) {
		for from, more := "", true; more; {
			more = false
			for seg, err := range editionSegments(ctx, v, ed.Name, v.Scope, span{from: from}) {
				if err != nil {
					return nil, 0, err
				}
				key := catalog.Key(seg.Host)
				domain := domainOf(key)
				if !slices.Contains(domains, domain) {
					domains = append(domains, domain)
					cost += 64
				}
				// Hosts on other ports, "jp_8080", come behind "jp-x", and are met there.
				from, more = max(key, domain+",~"), true
				break
			}
		}
		return domains, 256 + cost, nil
	})
}

// domainOf returns the top-level domain of the host with a key.
func domainOf(key string) string {
	domain, _, deep := strings.Cut(key, ",")
	if at := strings.LastIndexByte(domain, '_'); !deep && at > 0 && account.IsPort(domain[at:]) {
		domain = domain[:at]
	}
	return domain
}

// littleShare says which editions are little: those that brought of a domain less than one
// littleShare-th of a volume, in bytes and in hosts. Little editions that follow one another share
// a volume, as long as they are little together. So a day of many express batches has few volumes,
// and only the last volume of a day changes when an edition arrives.
const littleShare = 16

// volumeParts returns what each volume of a domain has.
func (f *finder) volumeParts(ctx context.Context, of source) (parts []part, err error) {
	if of.current != nil {
		at := span{}
		for _, at.to = range of.current.Ends {
			parts = append(parts, part{at, of.editions})
			at.from = at.to
		}
		return parts, nil
	}
	var shared brought // by the editions of the last part, if more may share it
	for i, ed := range of.editions {
		if catalog.DayOf(ed.Name) != of.name {
			return nil, nil // nothing was published on the day
		}
		b, err := f.broughtBy(ctx, ed, of.place)
		if err != nil {
			return nil, err
		}
		if b.hosts == 0 {
			continue
		}
		little := func(b brought) bool {
			return b.bytes < f.tree.opt.VolumeBytes/littleShare && b.hosts < volumeHosts/littleShare
		}
		together := brought{bytes: shared.bytes + b.bytes, hosts: shared.hosts + b.hosts}
		if shared.hosts > 0 && little(b) && little(together) {
			last := &parts[len(parts)-1]
			last.editions, shared = append(slices.Clip(last.editions), ed), together
			continue
		}
		for _, s := range b.spans {
			parts = append(parts, part{s, of.editions[i : i+1]})
		}
		if shared = (brought{}); little(b) {
			shared = b
			parts[len(parts)-1].span = span{}
		}
	}
	return parts, nil
}

// brought is what an edition brought of a domain.
type brought struct {
	bytes int64
	hosts int
	spans []span // of the volumes that it would have of its own
}

// broughtBy returns what an edition brought of the domain at a place.
func (f *finder) broughtBy(ctx context.Context, ed catalog.Edition, place string) (brought, error) {
	key := fmt.Sprintf("brought %q %q", ed.Name, place)
	return library.Shared(ctx, f.view, key, func(ctx context.Context, v *library.AccountView) (all brought, cost int64, err error) {
		size, hosts, at := int64(0), 0, span{}
		for h, err := range v.Snap.EditionSizes(ctx, ed.Name, account.KeyPrefix(place)) {
			switch {
			case err != nil:
				return brought{}, 0, err
			case !account.Within(strings.ReplaceAll(h.Key, ",", "/"), place):
				continue
			case hosts > 0 && (size+h.Bytes > f.tree.opt.VolumeBytes || hosts == volumeHosts):
				all.spans = append(all.spans, at)
				size, hosts, at = 0, 0, span{from: at.to}
			}
			size, hosts, at.to = size+h.Bytes, hosts+1, h.Key
			all.bytes, all.hosts = all.bytes+h.Bytes, all.hosts+1
		}
		if hosts > 0 {
			all.spans = append(all.spans, at)
		}
		return all, int64(128 + 256*len(all.spans)), nil
	})
}

// sharedSegments yields the segments that an account sees of a part of several editions, host by
// host and then edition by edition. It holds all of them in memory; they are few.
func sharedSegments(ctx context.Context, v *library.AccountView, s source, of part) iter.Seq2[catalog.SegmentEntry, error] {
	return func(yield func(catalog.SegmentEntry, error) bool) {
		var all []catalog.SegmentEntry
		for _, ed := range of.editions {
			for seg, err := range editionSegments(ctx, v, ed.Name, v.Scope.Under(s.place), of.span) {
				if err != nil {
					yield(seg, err)
					return
				}
				all = append(all, seg)
			}
		}
		slices.SortFunc(all, func(a, b catalog.SegmentEntry) int {
			return cmp.Or(strings.Compare(catalog.Key(a.Host), catalog.Key(b.Host)), cmp.Compare(a.Seq, b.Seq))
		})
		for _, seg := range all {
			if !yield(seg, nil) {
				return
			}
		}
	}
}
